// SPDX-License-Identifier: Apache-2.0
// The phase of an iface by what there is of it: each fact counts, and none that the phase is above.
import type { HotplugType, IfacePhase } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { anIface, IN_POD, IN_USE, WIRED, type IfaceOptions } from "../testing/node-scene.ts";
import { NO_LINKS, type SwapFacts } from "./facts.ts";
import { toHotplugType, mustReleaseDevice, decidePhase } from "./phase.ts";

const DEVICE = { device: {} };
const DELETED = { iface: null };
const ABSENT = { iface: { state: "absent" } };

interface Row {
  readonly name: string;
  readonly given: IfaceOptions;
  readonly want: IfacePhase | undefined;
}

const PLUG: readonly Row[] = [
  { name: "declared", given: {}, want: "Pending" },
  { name: "declared, its link down", given: { iface: { state: "down" } }, want: "Pending" },
  { name: "asked for", given: { attachment: "Requested" }, want: "PodAttaching" },
  {
    name: "failed, with links of before",
    given: { attachment: "Failed", links: WIRED },
    want: "PodAttaching",
  },
  { name: "in the pod", given: { attachment: "Attached", links: IN_POD }, want: "Wiring" },
  {
    name: "in the pod with a tap that is not in order",
    given: { attachment: "Attached", links: { ...WIRED, isWired: false } },
    want: "Wiring",
  },
  { name: "wired", given: { attachment: "Attached", links: WIRED }, want: "Attaching" },
  {
    name: "wired, with a tap that somebody else has open",
    given: { attachment: "Attached", links: IN_USE },
    want: "Attaching",
  },
  {
    name: "in the guest, on a tap that QEMU has not open",
    given: { attachment: "Attached", links: WIRED, ...DEVICE },
    want: "Attaching",
  },
  {
    name: "in the guest, on links that are not in order",
    given: { attachment: "Attached", links: { ...IN_USE, isWired: false }, ...DEVICE },
    want: "Wiring",
  },
  {
    name: "in the guest",
    given: { attachment: "Attached", links: IN_USE, ...DEVICE },
    want: "Ready",
  },
  { name: "in the guest, of a lost pod", given: { links: IN_USE, ...DEVICE }, want: "Ready" },
];

const UNPLUG: readonly Row[] = [
  {
    name: "in the guest",
    given: { attachment: "Attached", links: IN_USE, ...DEVICE },
    want: "Detaching",
  },
  { name: "out of the guest", given: { attachment: "Attached", links: WIRED }, want: "Unwiring" },
  {
    name: "out of the guest, with its bridge alone",
    given: { attachment: "Attached", links: { bridge: true } },
    want: "Unwiring",
  },
  {
    name: "out of the guest, with its tap alone",
    given: { attachment: "Attached", links: { tap: true } },
    want: "Unwiring",
  },
  { name: "in the pod", given: { attachment: "Attached", links: IN_POD }, want: "PodDetaching" },
  { name: "nowhere", given: {}, want: undefined },
];

describe("an iface that is wanted and", () => {
  test.each(PLUG)("$name: $want", ({ given: input, want }) => {
    expect(decidePhase(anIface(input))).toBe(want);
  });
});

describe("an iface that is not wanted and", () => {
  test.each(UNPLUG)("$name: $want", ({ given: input, want }) => {
    expect(decidePhase(anIface({ ...input, ...DELETED }))).toBe(want);
    expect(decidePhase(anIface({ ...input, ...ABSENT }))).toBe(want);
  });
});

test("one whose attachment is being removed finishes the unplug, also when it is wanted", () => {
  const removing = { attachment: "Removing" } as const;
  expect(decidePhase(anIface({ ...removing, links: IN_USE, ...DEVICE }))).toBe("Detaching");
  expect(decidePhase(anIface({ ...removing, links: WIRED }))).toBe("Unwiring");
  expect(decidePhase(anIface(removing))).toBe("PodDetaching");
});

describe("the guest releases a device", () => {
  const attachment = "Attached" as const;

  test.each<{ name: string; given: IfaceOptions; want: boolean }>([
    { name: "that is not wanted", given: { ...DELETED, attachment, ...DEVICE }, want: true },
    { name: "whose tap was made anew", given: { attachment, links: WIRED, ...DEVICE }, want: true },
    { name: "not of one in order", given: { attachment, links: IN_USE, ...DEVICE }, want: false },
    {
      name: "not of one whose links are being mended",
      given: { attachment, links: IN_POD, ...DEVICE },
      want: false,
    },
    { name: "not of none", given: { attachment, links: WIRED }, want: false },
    { name: "not of none that is not wanted", given: { ...DELETED, links: WIRED }, want: false },
  ])("$name", ({ given: input, want }) => {
    expect(mustReleaseDevice(anIface(input))).toBe(want);
  });
});

describe("an iface whose network is another", () => {
  const inPod = { ...NO_LINKS, podInterface: true };
  const there = { name: "a", podInterfaceName: "pod2", state: "Attached" } as const;
  const swap = { podInterfaceName: "pod2", links: inPod, attachment: there };
  const ready: IfaceOptions = { attachment: "Attached", links: IN_USE, ...DEVICE };

  test.each<{ name: string; given: IfaceOptions; swap: SwapFacts; want: IfacePhase }>([
    {
      name: "waits for the pod",
      given: ready,
      swap: { podInterfaceName: "pod2", links: NO_LINKS },
      want: "PodSwapping",
    },
    {
      name: "waits for the NIC in the pod",
      given: ready,
      swap: { ...swap, links: NO_LINKS },
      want: "PodSwapping",
    },
    {
      name: "waits where it failed",
      given: ready,
      swap: { ...swap, attachment: { ...there, state: "Failed" } },
      want: "PodSwapping",
    },
    { name: "swaps", given: ready, swap, want: "Switching" },
    {
      name: "swaps also from a network that is spoilt",
      given: { ...ready, links: { ...IN_USE, isWired: false } },
      swap,
      want: "Switching",
    },
    {
      name: "is mended where it is while it waits",
      given: { ...ready, links: { ...IN_USE, isWired: false } },
      swap: { podInterfaceName: "pod2", links: NO_LINKS },
      want: "Wiring",
    },
    {
      name: "is plugged anew where nobody has its tap open",
      given: { ...ready, links: WIRED },
      swap,
      want: "Attaching",
    },
  ])("$name: $want", ({ given: input, swap: to, want }) => {
    expect(decidePhase({ ...anIface(input), swap: to })).toBe(want);
  });

  test("goes when it is not wanted, with what is left of either", () => {
    expect(decidePhase({ ...anIface({ ...ready, ...ABSENT }), swap })).toBe("Detaching");
    const left = { ...anIface({ attachment: "Attached", ...ABSENT }), leftovers: ["pod2"] };
    expect(decidePhase(left)).toBe("Unwiring");
  });
});

test.each<readonly [IfacePhase, HotplugType]>([
  ["Pending", "Plug"],
  ["PodAttaching", "Plug"],
  ["Wiring", "Plug"],
  ["Attaching", "Plug"],
  ["Ready", "Plug"],
  ["PodSwapping", "Swap"],
  ["Switching", "Swap"],
  ["Detaching", "Unplug"],
  ["Unwiring", "Unplug"],
  ["PodDetaching", "Unplug"],
])("%s belongs to a %s", (phase, kind) => {
  expect(toHotplugType(phase)).toBe(kind);
});
