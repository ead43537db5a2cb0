// SPDX-License-Identifier: Apache-2.0
import type { HotplugType, IfacePhase } from "@patchbay/api";
import { expect, test } from "vitest";
import { describeTimings, updateTimings, type PhaseTimings } from "./phase-timings.ts";

const ELSE = { now: "", podInterfaceName: "net1", isRunning: true, wasReady: false };

type Observed = readonly [nowMs: number, type: HotplugType, phase: IfacePhase];

interface Row {
  readonly name: string;
  readonly seen: readonly Observed[];
  /** Whether the first one is the beginning; it is, where nothing is said. */
  readonly isNew?: boolean;
  readonly endMs: number;
  readonly want: string | undefined;
}

const PLUG: readonly Observed[] = [
  [1000, "Plug", "Pending"],
  [1010, "Plug", "PodAttaching"],
  [1510, "Plug", "Wiring"],
  [1530, "Plug", "Attaching"],
  [1840, "Plug", "Ready"],
];

test.each<Row>([
  {
    name: "a plug",
    seen: PLUG,
    endMs: 1840,
    want: "after 0.84 s (pod 0.51 s, device 0.33 s)",
  },
  {
    name: "a plug that is reported late",
    seen: PLUG,
    endMs: 5000,
    want: "after 0.84 s (pod 0.51 s, device 0.33 s)",
  },
  {
    name: "a plug with repeatedly observed phases",
    seen: [
      [0, "Plug", "PodAttaching"],
      [500, "Plug", "PodAttaching"],
      [60_000, "Plug", "Wiring"],
      [60_100, "Plug", "PodAttaching"],
      [61_000, "Plug", "Ready"],
    ],
    endMs: 61_000,
    want: "after 61 s (pod 61 s, device 0.10 s)",
  },
  {
    name: "a plug with only its end observed",
    seen: PLUG,
    isNew: false,
    endMs: 1840,
    want: undefined,
  },
  {
    name: "an unplug, whose end is not observable",
    seen: [
      ...PLUG,
      [9000, "Unplug", "Detaching"],
      [9900, "Unplug", "Unwiring"],
      [9950, "Unplug", "PodDetaching"],
    ],
    endMs: 10_200,
    want: "after 1.20 s (guest 0.90 s, links 0.05 s, pod 0.25 s)",
  },
  {
    name: "an unplug before the NIC was in the guest",
    seen: [
      [0, "Plug", "PodAttaching"],
      [4000, "Unplug", "PodDetaching"],
    ],
    endMs: 4500,
    want: "after 0.50 s",
  },
  {
    name: "an unplug that was reverted",
    seen: [...PLUG, [9000, "Unplug", "Detaching"], [9500, "Plug", "Ready"]],
    endMs: 9500,
    want: "after 0.50 s",
  },
  {
    name: "a swap",
    seen: [
      ...PLUG,
      [5000, "Swap", "PodSwapping"],
      [5300, "Swap", "Switching"],
      [5340, "Plug", "Ready"],
    ],
    endMs: 5340,
    want: "after 0.34 s (pod 0.30 s, links 0.04 s)",
  },
])("$name: $want", ({ seen: observed, isNew = true, endMs, want }) => {
  const timings = observed.reduce<PhaseTimings | undefined>(
    (before, [nowMs, type, phase]) => updateTimings(before, { ...ELSE, type, phase, nowMs, isNew }),
    undefined,
  );
  expect(describeTimings(timings, endMs)).toBe(want);
});

test("reports nothing that was not observed", () => {
  expect(describeTimings(undefined, 0)).toBeUndefined();
});
