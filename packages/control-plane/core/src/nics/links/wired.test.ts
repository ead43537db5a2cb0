// SPDX-License-Identifier: Apache-2.0
// Which wirings the pod network is asked for, and what its answer says of the ifaces.
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { EMPTY_GUEST_VIEW } from "../../guest/agent-view.ts";
import { collectIfaceFacts, type IfaceSources } from "../phase.ts";
import type { IfaceFacts } from "../facts.ts";
import type { KernelLink } from "./link-facts.ts";
import { listCurrentWirings, listExpectedWirings, withWired } from "../node-plan.ts";

const POD_NIC = "pod7692c3ad354";
const TAP = "tap7692c3ad354";
const MAC = "02:00:00:00:00:01";
const OTHER_MAC = "02:00:00:00:00:02";
const LINKS = [POD_NIC, "k6t-7692c3ad354", TAP].map((name) => link(name));
const WIRING = {
  kind: "bridge",
  podInterfaceName: POD_NIC,
  bridgeName: "k6t-7692c3ad354",
  tapName: TAP,
  mac: MAC,
  mtu: 1400,
};

function link(name: string, more: Partial<KernelLink> = {}): KernelLink {
  return { name, mtu: 1400, carrier: false, ...more };
}

function collect(sources: Partial<IfaceSources>): readonly IfaceFacts[] {
  const vmi = aVmi({ nics: [{ name: "one", mac: MAC }] });
  const nothing = { links: LINKS, nics: [], guest: EMPTY_GUEST_VIEW, bindings: {} };
  return collectIfaceFacts({ vmi, ...nothing, ...sources });
}

/** The iface on its old network, while the pod has the NIC of the other network too. */
function onTheMove(): readonly IfaceFacts[] {
  const [facts] = collect({});
  if (facts === undefined) throw new Error("no iface");
  const links = { ...facts.links, mtu: 9000 };
  return [{ ...facts, swap: { podInterfaceName: "podfedcba98765", links } }];
}

describe("the required wirings", () => {
  test("contain one wiring around each NIC of the pod, with its MTU", () => {
    expect(listExpectedWirings(collect({}))).toEqual([WIRING]);
  });

  test("are empty without a NIC in the pod", () => {
    expect(listExpectedWirings(collect({ links: LINKS.slice(1) }))).toEqual([]);
  });

  test("use the device's MAC if it has a device", () => {
    const nic = { alias: "ua-one", mac: OTHER_MAC, model: "virtio", tapName: TAP };
    const wirings = listExpectedWirings(collect({ nics: [{ ...nic, linkUp: true, queues: 1 }] }));
    expect(wirings).toMatchObject([{ tapName: TAP, mac: OTHER_MAC }]);
  });

  test("contain two wirings during a network swap", () => {
    expect(listExpectedWirings(onTheMove())).toMatchObject([
      { podInterfaceName: POD_NIC, mtu: 1400 },
      { podInterfaceName: "podfedcba98765", tapName: "tapfedcba98765", mtu: 9000 },
    ]);
  });
});

describe("the policy of a NIC is that of", () => {
  const [BLUE, RED, POD] = [{ ingress: [] }, { egress: [] }, { ingress: [{}] }];
  const attached = (networkName: string, podInterfaceName: string) =>
    ({ name: "one", networkName, podInterfaceName, state: "Attached" }) as const;
  const SWAP_NIC = "podfedcba98765";
  const swapping = aVmi({
    nics: [{ name: "one", mac: MAC, network: "red" }],
    status: { attachments: [attached("default/blue", POD_NIC), attached("default/red", SWAP_NIC)] },
  });
  const nic = { alias: "ua-one", mac: MAC, model: "virtio", tapName: TAP, linkUp: true, queues: 1 };
  const links = [
    ...LINKS.filter(({ name }) => name !== TAP),
    link(TAP, { master: WIRING.bridgeName }),
    link(SWAP_NIC),
  ];

  test.each<{ name: string; given: Partial<IfaceSources>; want: readonly unknown[] }>([
    {
      name: "its network, without an attachment",
      given: { networkPolicies: { "default/blue": BLUE, "default/red": RED }, podPolicy: POD },
      want: [BLUE],
    },
    {
      name: "no other network",
      given: { networkPolicies: { "default/red": RED }, podPolicy: POD },
      want: [undefined],
    },
    {
      name: "each network during a swap",
      given: {
        vmi: swapping,
        nics: [nic],
        links,
        networkPolicies: { "default/blue": BLUE, "default/red": RED },
      },
      want: [BLUE, RED],
    },
    {
      name: "the old network only, during a swap to a network without policies",
      given: { vmi: swapping, nics: [nic], links, networkPolicies: { "default/blue": BLUE } },
      want: [BLUE, undefined],
    },
  ])("$name", ({ given, want }) => {
    const ifaces = collect(given);
    expect(listExpectedWirings(ifaces).map(({ policy }) => policy)).toEqual(want);
    expect(listCurrentWirings(ifaces).map(({ policy }) => policy)).toEqual(want.slice(0, 1));
  });
});

describe("the wired state", () => {
  test.each([
    { name: "is true for complete wirings", links: LINKS, taps: [TAP], want: true },
    { name: "is false for incomplete wirings", links: LINKS, taps: ["tapother"], want: false },
    { name: "is false without the pod's NIC", links: LINKS.slice(1), taps: [TAP], want: false },
  ])("$name", ({ links, taps, want }) => {
    const [facts] = withWired(collect({ links }), new Set(taps));
    expect(facts?.links.isWired).toBe(want);
  });

  test.each([
    { name: "the old network", taps: [TAP], want: [true, false] },
    { name: "the other network", taps: ["tapfedcba98765"], want: [false, true] },
  ])("is determined for each network: $name", ({ taps, want }) => {
    const [facts] = withWired(onTheMove(), new Set(taps));
    expect([facts?.links.isWired, facts?.swap?.links.isWired]).toEqual(want);
  });
});
