// SPDX-License-Identifier: Apache-2.0
// Networks of the target's pod: addresses and MACs that the guest can continue with.
import {
  names,
  type Attachment,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
} from "@patchbay/api";
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
import { findTargetNicProblem } from "./target-nics.ts";
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
    expect(findTargetNicProblem(factsOf(here, there))).toBeUndefined();
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

describe("networks that may pass only frames from the MAC that they assigned", () => {
  const OTHER_MAC = "02:00:00:00:5e:02";

  function definitionsOf(plugin: object): ReadonlyMap<string, NetworkAttachmentDefinition> {
    const definition = {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { name: "blue", namespace: "default" },
      spec: { config: JSON.stringify(plugin) },
    };
    return new Map([["default/blue", definition]]);
  }

  const CHECKED = definitionsOf({ type: "bridge", macspoofchk: true });
  const LEARNING = definitionsOf({ type: "bridge" });

  function guestFactsWith(definitions: typeof CHECKED, iface: object = {}) {
    return { ...aGuestFacts(guestWith(["10.9.0.5"], iface)), definitions };
  }

  test.each([
    { name: "the MAC in the specification", iface: {}, mac: MAC },
    { name: "the guest's MAC", iface: { macAddress: undefined }, mac: OTHER_MAC },
  ])("are requested to assign $name", ({ iface, mac }) => {
    const facts = guestFactsWith(CHECKED, iface);
    const interfaces = (facts.vmi.status?.interfaces ?? []).map((each) => ({
      ...each,
      mac: OTHER_MAC,
    }));
    const vmi = { ...facts.vmi, status: { ...facts.vmi.status, interfaces } };
    const { annotations = {} } = buildTargetPod({ ...facts, vmi }, aMigration()).metadata;
    const [element] = JSON.parse(annotations[names.NETWORKS_ANNOTATION] ?? "[]") as unknown[];
    expect(element).toMatchObject({ interface: "podone", mac });
  });

  test("no MAC is requested from a network that learns MACs", () => {
    const pod = buildTargetPod(guestFactsWith(LEARNING), aMigration());
    const text = pod.metadata.annotations?.[names.NETWORKS_ANNOTATION] ?? "";
    expect(text).toContain("podone");
    expect(text).not.toContain('"mac"');
  });

  function decideWithMac(definitions: typeof CHECKED, mac: string) {
    const pod = targetWith(["10.9.0.5"]);
    const reported = [{ name: "default/blue", interface: "podone", ips: ["10.9.0.5"], mac }];
    const element = { name: "blue", namespace: "default", interface: "podone", mac: MAC };
    const annotations = {
      ...pod.metadata.annotations,
      [names.NETWORKS_ANNOTATION]: JSON.stringify([element]),
      [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(reported),
    };
    const targetPod = { ...pod, metadata: { ...pod.metadata, annotations } };
    const guest = guestFactsWith(definitions);
    return decide(someFacts({ guest, targetPod, migration: aMigration("Scheduling") }));
  }

  test("end the migration before any transfer if the target has another MAC", () => {
    expect(decideWithMac(CHECKED, OTHER_MAC)).toEqual({
      kind: "fail",
      why: expect.stringMatching(
        /^interface one could have no traffic on the target's node, because network default\/blue may pass only .*02:00:00:00:5e:02/,
      ) as string,
    });
  });

  test.each([
    { name: "the target has the guest's MAC", definitions: CHECKED, mac: MAC },
    { name: "the network passes all MACs", definitions: LEARNING, mac: OTHER_MAC },
  ])("the migration continues if $name", ({ definitions, mac }) => {
    expect(decideWithMac(definitions, mac)).not.toMatchObject({ kind: "fail" });
  });
});
