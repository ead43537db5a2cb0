// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { NO_LINKS, type IfaceFacts } from "../facts.ts";
import { linkFilterOf } from "./link-filter.ts";

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

describe("after a look at a NIC that is attached", () => {
  const isRelevant = linkFilterOf([ATTACHED], LINKS);

  test.each([
    { name: "its NIC in the pod, whatever it is called now", change: { index: 3, name: "x" } },
    { name: "its bridge", change: { index: 4 } },
    { name: "its tap", change: { index: 5 } },
    { name: "a NIC in the pod of its name", change: { index: 9, name: ONE.podInterfaceName } },
    { name: "a new tap of its name", change: { index: 9, name: `tap${HASH}` } },
    { name: "a link that is called as those of another iface", change: { index: 9, name: "tap0" } },
  ])("a change of $name is worth another", ({ change }) => {
    expect(isRelevant([{ index: 1, name: "lo" }, change])).toBe(true);
  });

  test.each([
    { name: "of a link that carries no iface", changes: [{ index: 2, name: "eth0" }] },
    { name: "of a link that nobody knows", changes: [{ index: 9 }] },
    { name: "at all", changes: [] },
  ])("no change $name is", ({ changes }) => {
    expect(isRelevant(changes)).toBe(false);
  });

  test("anything may be", () => {
    expect(isRelevant("unknown")).toBe(true);
  });
});

test.each([
  { name: "is being attached", iface: ONE, want: false },
  { name: "is being removed from the pod", iface: { ...ONE, links: NO_LINKS }, want: false },
  {
    name: "still has its bridge",
    iface: { ...ONE, links: { ...NO_LINKS, bridge: true } },
    want: true,
  },
  { name: "still has its tap", iface: { ...ONE, links: { ...NO_LINKS, tap: true } }, want: true },
])("the pod's NIC of one that $name: $want", ({ iface, want }) => {
  expect(linkFilterOf([iface], LINKS)([{ index: 3 }])).toBe(want);
});

test("the tap of a plugin is relevant by its name", () => {
  const links = { ...NO_LINKS, tapName: "plugged" };
  expect(linkFilterOf([{ ...ATTACHED, links }], LINKS)([{ index: 9, name: "plugged" }])).toBe(true);
});
