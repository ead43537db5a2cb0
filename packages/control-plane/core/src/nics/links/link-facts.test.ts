// SPDX-License-Identifier: Apache-2.0
// What the links say of an iface whose tap is not ours to make.
import type { BindingRegistry, Iface } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { NO_LINKS, type IfaceFacts } from "../facts.ts";
import {
  collectBindingFacts,
  collectLinkFacts,
  type KernelLink,
  updateDeviceTaps,
  buildLinkFilter,
} from "./link-facts.ts";
import { buildWiring } from "../node-plan.ts";

const MAC = "02:00:00:00:00:01";
const NAMED = { name: "one", podInterfaceName: "pod0123456789a" };
const TAP = "tap0123456789a";
const BRIDGE = "k6t-0123456789a";
const BINDINGS: BindingRegistry = { own: { domainAttachmentType: "tap" } };

function link(name: string, more: Partial<KernelLink> = {}): KernelLink {
  return { name, mtu: 1400, carrier: false, ...more };
}

describe("the device opens the plugin's link", () => {
  const iface: Iface = { name: "one", binding: { name: "own" }, macAddress: MAC };
  const facts = { ...NAMED, iface, binding: { kind: "tap" } } as const;

  test.each<{ name: string; links: readonly KernelLink[]; want: object; asked: string }>([
    {
      name: "by the tap's name, with its MTU and queues",
      links: [link(NAMED.podInterfaceName, { mtu: 9000 }), link(TAP, { tapQueues: "many" })],
      want: { hasPodInterface: true, mtu: 1400, tapName: TAP, tapQueues: "many" },
      asked: TAP,
    },
    {
      name: "by the name of the pod's NIC if no such tap exists",
      links: [link(NAMED.podInterfaceName, { carrier: true, mac: MAC })],
      want: { hasPodInterface: true, isTapOpen: true, mac: MAC, tapName: NAMED.podInterfaceName },
      asked: NAMED.podInterfaceName,
    },
    {
      name: "only when the link exists",
      links: [link("eth0")],
      want: { hasPodInterface: false, mtu: 0 },
      asked: NAMED.podInterfaceName,
    },
  ])("$name", ({ links, want, asked: requested }) => {
    const found = collectLinkFacts(facts, { links });
    expect(found).toMatchObject({ ...want, hasTap: false, hasBridge: false });
    expect(buildWiring({ ...facts, links: found })).toMatchObject({
      kind: "tap",
      tapName: requested,
      mac: MAC,
    });
  });

  test("opens nothing while its name is unknown", () => {
    const sources = { links: [link(TAP)] };
    expect(collectLinkFacts({ ...facts, podInterfaceName: "" }, sources)).toEqual(NO_LINKS);
  });
});

describe("infers an interface's binding from its links", () => {
  const REFUSED: Iface = { name: "one", binding: { name: "unheard" } };

  test.each([
    { name: "a bridge and a tap belong to Patchbay", links: [BRIDGE, TAP], want: "bridge" },
    { name: "a bridge alone is Patchbay's leftover", links: [BRIDGE], want: "bridge" },
    { name: "a tap without a bridge belongs to the plugin", links: [TAP], want: "tap" },
    { name: "no links mean the default binding", links: [], want: "bridge" },
  ])("$name", ({ links, want }) => {
    const sources = { links: links.map((name) => link(name)), bindings: BINDINGS };
    expect(collectBindingFacts(NAMED, {}, sources)).toEqual({ kind: want });
    expect(collectBindingFacts(NAMED, { iface: REFUSED }, sources)).toMatchObject({
      kind: "refused",
      leftover: want,
    });
  });

  test("unless the interface sets a binding", () => {
    const sources = { links: [link(BRIDGE)], bindings: BINDINGS };
    const iface: Iface = { name: "one", binding: { name: "own" } };
    expect(collectBindingFacts(NAMED, { iface }, sources)).toEqual({ kind: "tap" });
  });

  test("and ignores a plugin's links", () => {
    const sources = { links: [link(TAP)], bindings: BINDINGS };
    const iface = { ...REFUSED, state: "absent" };
    const binding = collectBindingFacts(NAMED, { iface }, sources);
    expect(collectLinkFacts({ ...NAMED, iface, binding }, sources)).toMatchObject({
      hasTap: false,
    });
  });
});

const device = { alias: "ua-one", mac: "02:00:00:00:00:01", linkUp: true, queues: 1 };
const WITHOUT_DEVICE: IfaceFacts = {
  name: "one",
  podInterfaceName: "pod1",
  binding: { kind: "bridge" },
  links: { ...NO_LINKS, hasTap: true, isTapOpen: true, tapIndex: 4 },
};
const IFACE: IfaceFacts = { ...WITHOUT_DEVICE, device };
const CLOSED = { ...IFACE, links: { ...IFACE.links, isTapOpen: false, tapIndex: 9 } };
const NO_TAP = { ...IFACE, links: NO_LINKS };

test.each([
  { name: "that it has open", iface: IFACE, before: 3, want: 4 },
  { name: "that it had open, while another tap has its name", iface: CLOSED, before: 4, want: 4 },
  { name: "that it had open, while the tap is missing", iface: NO_TAP, before: 4, want: 4 },
  { name: "unset if none was open", iface: CLOSED, before: undefined, want: undefined },
  { name: "unset if the device is detached", iface: WITHOUT_DEVICE, before: 4, want: undefined },
])("remembers a device with the tap $name", ({ iface, before, want }) => {
  const known = new Map(before === undefined ? [] : [["one", before]]);
  expect(updateDeviceTaps([iface], known).get("one")).toBe(want);
});

const HASH = "0123456789a";
const ONE: IfaceFacts = {
  name: "one",
  podInterfaceName: `pod${HASH}`,
  binding: { kind: "bridge" },
  links: NO_LINKS,
};
const ATTACHED: IfaceFacts = {
  ...ONE,
  attachment: { name: "one", podInterfaceName: ONE.podInterfaceName, state: "Attached" },
};
const LINKS = [
  { name: "lo", index: 1 },
  { name: "eth0", index: 2 },
  { name: ONE.podInterfaceName, index: 3 },
  { name: `k6t-${HASH}`, index: 4 },
  { name: `tap${HASH}`, index: 5 },
];

describe("after the observation of an attached NIC", () => {
  const isRelevant = buildLinkFilter([ATTACHED], LINKS);

  test.each([
    { name: "its NIC in the pod, even if renamed", change: { index: 3, name: "x" } },
    { name: "its bridge", change: { index: 4 } },
    { name: "its tap", change: { index: 5 } },
    {
      name: "another NIC in the pod with its name",
      change: { index: 9, name: ONE.podInterfaceName },
    },
    { name: "a new tap with its name", change: { index: 9, name: `tap${HASH}` } },
    { name: "a link named like another iface's links", change: { index: 9, name: "tap0" } },
  ])("a change of $name is relevant", ({ change }) => {
    expect(isRelevant([{ index: 1, name: "lo" }, change])).toBe(true);
  });

  test.each([
    { name: "of a link without an iface", changes: [{ index: 2, name: "eth0" }] },
    { name: "of an unknown link", changes: [{ index: 9 }] },
    { name: "without any links", changes: [] },
  ])("no change $name is relevant", ({ changes }) => {
    expect(isRelevant(changes)).toBe(false);
  });

  test("an unknown change is relevant", () => {
    expect(isRelevant("unknown")).toBe(true);
  });
});

test.each([
  { name: "is being attached", iface: ONE, want: false },
  { name: "is being removed from the pod", iface: { ...ONE, links: NO_LINKS }, want: false },
  {
    name: "still has its bridge",
    iface: { ...ONE, links: { ...NO_LINKS, hasBridge: true } },
    want: true,
  },
  {
    name: "still has its tap",
    iface: { ...ONE, links: { ...NO_LINKS, hasTap: true } },
    want: true,
  },
])("a change of the pod's NIC of an iface that $name is relevant: $want", ({ iface, want }) => {
  expect(buildLinkFilter([iface], LINKS)([{ index: 3 }])).toBe(want);
});

test("a change of a plugin's tap is relevant by its name", () => {
  const links = { ...NO_LINKS, tapName: "plugged" };
  expect(buildLinkFilter([{ ...ATTACHED, links }], LINKS)([{ index: 9, name: "plugged" }])).toBe(
    true,
  );
});
