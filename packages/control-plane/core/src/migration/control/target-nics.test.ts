// SPDX-License-Identifier: Apache-2.0
// Does the target's pod have what its guest can go on with, and is nobody told of the guest by it too early?
import { names, type Attachment, type VirtualMachineInstance } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import {
  aGuest,
  aGuestFacts,
  aMigration,
  aTarget,
  someFacts,
} from "../../testing/migration-facts.ts";
import { decide } from "./decision.ts";
import { addressProblem } from "./target-nics.ts";
import { buildTargetPod } from "./target-pod.ts";

const MAC = "02:00:00:00:5e:01";
const NETWORKS = [
  { name: "one", multus: { networkName: "blue" } },
  { name: "pod", pod: {} },
];
const INTERFACES = [
  { name: "one", bridge: {}, macAddress: MAC },
  { name: "pod", masquerade: {} },
];

function guestWith(ips: readonly string[], bindings: object = {}): VirtualMachineInstance {
  const attachments: Attachment[] = [
    {
      name: "one",
      networkName: "default/blue",
      podInterfaceName: "podone",
      state: "Attached",
      ips: [...ips],
    },
    { name: "pod", podInterfaceName: "eth0", state: "Attached", ips: ["10.88.0.1"] },
  ];
  const hotplug = { type: "Plug", phase: "Ready" } as const;
  const interfaces = [{ name: "one", podInterfaceName: "podone", hotplug }];
  const vmi = aGuest({ attachments, interfaces });
  const [one, pod] = INTERFACES;
  const devices = { ...vmi.spec.domain.devices, interfaces: [{ ...one, ...bindings }, pod] };
  const domain = { ...vmi.spec.domain, devices };
  return { ...vmi, spec: { ...vmi.spec, domain, networks: NETWORKS } } as never;
}

/** As the plugins on the target's node told. */
function targetWith(ips: readonly string[]): Pod {
  const pod = aTarget();
  const reported = [
    { name: "default/blue", interface: "podone", ips },
    { name: "cni", interface: "eth0", ips: ["10.88.0.9"], default: true },
  ];
  const annotations = {
    ...pod.metadata.annotations,
    [names.NETWORKS_ANNOTATION]: JSON.stringify([
      { name: "blue", namespace: "default", interface: "podone" },
    ]),
    [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(reported),
  };
  return { ...pod, metadata: { ...pod.metadata, annotations } };
}

function factsOf(here: readonly string[], there: readonly string[]) {
  return someFacts({
    guest: aGuestFacts(guestWith(here)),
    targetPod: targetWith(there),
    migration: aMigration("Scheduling"),
  });
}

describe("the addresses of a migrating guest", () => {
  test.each([
    { name: "unchanged", here: ["10.9.0.5"], there: ["10.9.0.5"] },
    {
      name: "the same in another order",
      here: ["10.9.0.5", "fd09::5"],
      there: ["fd09::5", "10.9.0.5"],
    },
    { name: "unset on both nodes", here: [], there: [] },
    { name: "not yet known at the target", here: ["10.9.0.5"], there: [] },
  ])("are $name: the migration continues", ({ here, there }) => {
    expect(addressProblem(factsOf(here, there))).toBeUndefined();
  });

  test("differ on the target: the migration fails before any transfer, with advice", () => {
    const decision = decide(factsOf(["10.9.0.5"], ["10.9.0.6"]));
    expect(decision).toEqual({
      kind: "fail",
      why: "network default/blue gave interface one other addresses on the target's node (10.9.0.6) than the guest has (10.9.0.5); let its IPAM give the same ones on each node, or none",
    });
  });
});

describe("requests to the target's networks", () => {
  function requestedBy(bindings: object): unknown {
    const facts = aGuestFacts(guestWith(["10.9.0.5"], bindings));
    const { annotations = {} } = buildTargetPod(facts, aMigration()).metadata;
    return JSON.parse(annotations[names.NETWORKS_ANNOTATION] ?? "[]");
  }

  test("contain the guest's addresses, but not its MAC, which a plugin would announce", () => {
    const [element] = requestedBy({}) as readonly object[];
    expect(element).toMatchObject({ interface: "podone", "io.patchbay.kept-ips": ["10.9.0.5"] });
    expect(element).not.toHaveProperty("mac");
  });
});
