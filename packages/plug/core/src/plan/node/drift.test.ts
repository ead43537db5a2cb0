// SPDX-License-Identifier: Apache-2.0
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { NO_LINKS, type IfaceFacts } from "../../iface/facts.ts";
import type { NodeAction } from "./node-vm.ts";
import { driftIn } from "./drift.ts";

const LINKS = { ...NO_LINKS, podInterface: true, bridge: true, tap: true };
const hotplug = { type: "Plug", phase: "Ready" } as const;
const READY: IfaceFacts = {
  name: "one",
  podInterfaceName: "pod1",
  iface: { name: "one", bridge: {} },
  binding: { kind: "bridge" },
  links: LINKS,
  reported: { name: "one", hotplug },
};
const NAMES = { kind: "bridge", podInterfaceName: "pod1", bridgeName: "b", tapName: "t" } as const;
const wiring = { ...NAMES, mac: "", mtu: 1500, owner: 107, queues: 1 };
const WIRE: NodeAction = { kind: "wireTap", iface: "one", wiring };
const DETACH: NodeAction = { kind: "detachDevice", iface: "one", alias: "ua-one" };
const ATTACH: NodeAction = { kind: "attachDevice", iface: "one", xml: "" };

test.each<{ name: string; action: NodeAction; links?: Partial<typeof LINKS>; says: string }>([
  { name: "a tap", action: WIRE, links: { tap: false }, says: "its tap was gone" },
  { name: "a bridge", action: WIRE, links: { bridge: false }, says: "its bridge was gone" },
  {
    name: "both",
    action: WIRE,
    links: { tap: false, bridge: false },
    says: "its tap and its bridge were gone",
  },
  { name: "something else", action: WIRE, says: "were changed by something else" },
  { name: "the tap of its device", action: DETACH, says: "not the one that its device uses" },
  { name: "the device", action: ATTACH, says: "its device was gone" },
])("of a NIC that was ready and lost $name it is told", ({ action, links = {}, says }) => {
  const facts = { ...READY, links: { ...LINKS, ...links } };
  const drift = driftIn([action], { vmi: aVmi(), ifaces: [facts] });
  expect(drift).toMatchObject([{ iface: "one" }]);
  expect(drift[0]?.message).toMatch(/^interface one: /);
  expect(drift[0]?.message).toContain(says);
});

test.each<{ name: string; facts: IfaceFacts; action: NodeAction }>([
  {
    name: "of a NIC that was not ready",
    facts: { ...READY, reported: { name: "one", hotplug: { ...hotplug, phase: "Wiring" } } },
    action: WIRE,
  },
  {
    name: "of a NIC that is to go",
    facts: { ...READY, iface: { name: "one", state: "absent" } },
    action: DETACH,
  },
  {
    name: "of a link that is switched",
    facts: READY,
    action: { kind: "setLink", iface: "one", xml: "" },
  },
  { name: "of another iface", facts: { ...READY, name: "two" }, action: WIRE },
  { name: "of the domain", facts: READY, action: { kind: "startDomain" } },
])("nothing is told $name", ({ facts, action }) => {
  expect(driftIn([action], { vmi: aVmi(), ifaces: [facts] })).toEqual([]);
});

test("a VMI that is being deleted has no drift, because its launcher ends with its links", () => {
  const vmi = aVmi();
  const metadata = { ...vmi.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
  for (const action of [WIRE, DETACH, ATTACH]) {
    expect(driftIn([action], { vmi: { ...vmi, metadata }, ifaces: [READY] })).toEqual([]);
  }
});
