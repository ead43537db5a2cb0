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
  { name: "declared, with link state down", given: { iface: { state: "down" } }, want: "Pending" },
  { name: "requested", given: { attachment: "Requested" }, want: "PodAttaching" },
  {
    name: "failed, with earlier links",
    given: { attachment: "Failed", links: WIRED },
    want: "PodAttaching",
  },
  { name: "in the pod", given: { attachment: "Attached", links: IN_POD }, want: "Wiring" },
  {
    name: "in the pod, with an incomplete tap",
    given: { attachment: "Attached", links: { ...WIRED, isWired: false } },
    want: "Wiring",
  },
  { name: "wired", given: { attachment: "Attached", links: WIRED }, want: "Attaching" },
  {
    name: "wired, with a tap that another process has open",
    given: { attachment: "Attached", links: IN_USE },
    want: "Attaching",
  },
  {
    name: "in the guest, with a tap that QEMU does not have open",
    given: { attachment: "Attached", links: WIRED, ...DEVICE },
    want: "Attaching",
  },
  {
    name: "in the guest, with incomplete links",
    given: { attachment: "Attached", links: { ...IN_USE, isWired: false }, ...DEVICE },
    want: "Wiring",
  },
  {
    name: "in the guest",
    given: { attachment: "Attached", links: IN_USE, ...DEVICE },
    want: "Ready",
  },
  { name: "in the guest of a lost pod", given: { links: IN_USE, ...DEVICE }, want: "Ready" },
];

const UNPLUG: readonly Row[] = [
  {
    name: "in the guest",
    given: { attachment: "Attached", links: IN_USE, ...DEVICE },
    want: "Detaching",
  },
  { name: "out of the guest", given: { attachment: "Attached", links: WIRED }, want: "Unwiring" },
  {
    name: "out of the guest, with only its bridge",
    given: { attachment: "Attached", links: { hasBridge: true } },
    want: "Unwiring",
  },
  {
    name: "out of the guest, with only its tap",
    given: { attachment: "Attached", links: { hasTap: true } },
    want: "Unwiring",
  },
  { name: "in the pod", given: { attachment: "Attached", links: IN_POD }, want: "PodDetaching" },
  { name: "nowhere", given: {}, want: undefined },
];

describe("the phase of a requested iface", () => {
  test.each(PLUG)("$name: $want", ({ given: input, want }) => {
    expect(decidePhase(anIface(input))).toBe(want);
  });
});

describe("the phase of an iface that is no longer requested", () => {
  test.each(UNPLUG)("$name: $want", ({ given: input, want }) => {
    expect(decidePhase(anIface({ ...input, ...DELETED }))).toBe(want);
    expect(decidePhase(anIface({ ...input, ...ABSENT }))).toBe(want);
  });
});

test("an iface whose attachment is being removed finishes the unplug, even if it is requested again", () => {
  const removing = { attachment: "Removing" } as const;
  expect(decidePhase(anIface({ ...removing, links: IN_USE, ...DEVICE }))).toBe("Detaching");
  expect(decidePhase(anIface({ ...removing, links: WIRED }))).toBe("Unwiring");
  expect(decidePhase(anIface(removing))).toBe("PodDetaching");
});

describe("the guest must release a device", () => {
  const attachment = "Attached" as const;

  test.each<{ name: string; given: IfaceOptions; want: boolean }>([
    {
      name: "that is no longer requested",
      given: { ...DELETED, attachment, ...DEVICE },
      want: true,
    },
    { name: "whose tap was recreated", given: { attachment, links: WIRED, ...DEVICE }, want: true },
    {
      name: "but not a healthy device",
      given: { attachment, links: IN_USE, ...DEVICE },
      want: false,
    },
    {
      name: "but not while its links are being repaired",
      given: { attachment, links: IN_POD, ...DEVICE },
      want: false,
    },
    { name: "but not without a device", given: { attachment, links: WIRED }, want: false },
    {
      name: "but not without a device if no longer requested",
      given: { ...DELETED, links: WIRED },
      want: false,
    },
  ])("$name", ({ given: input, want }) => {
    expect(mustReleaseDevice(anIface(input))).toBe(want);
  });
});

describe("an iface whose network changes", () => {
  const inPod = { ...NO_LINKS, hasPodInterface: true };
  const there = { name: "a", podInterfaceName: "pod2", state: "Attached" } as const;
  const swap = { podInterfaceName: "pod2", links: inPod, attachment: there };
  const ready: IfaceOptions = { attachment: "Attached", links: IN_USE, ...DEVICE };

  test.each<{ name: string; given: IfaceOptions; swap: SwapFacts; want: IfacePhase }>([
    {
      name: "waits for the pod's attachment",
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
      name: "waits if the attachment failed",
      given: ready,
      swap: { ...swap, attachment: { ...there, state: "Failed" } },
      want: "PodSwapping",
    },
    { name: "swaps", given: ready, swap, want: "Switching" },
    {
      name: "swaps even if the current wiring is incomplete",
      given: { ...ready, links: { ...IN_USE, isWired: false } },
      swap,
      want: "Switching",
    },
    {
      name: "is repaired on its current network while it waits",
      given: { ...ready, links: { ...IN_USE, isWired: false } },
      swap: { podInterfaceName: "pod2", links: NO_LINKS },
      want: "Wiring",
    },
    {
      name: "is plugged again if no process has its tap open",
      given: { ...ready, links: WIRED },
      swap,
      want: "Attaching",
    },
  ])("$name: $want", ({ given: input, swap: to, want }) => {
    expect(decidePhase({ ...anIface(input), swap: to })).toBe(want);
  });

  test("is unplugged if no longer requested, including leftovers of both networks", () => {
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
])("phase %s belongs to operation %s", (phase, kind) => {
  expect(toHotplugType(phase)).toBe(kind);
});
