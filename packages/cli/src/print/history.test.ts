// SPDX-License-Identifier: Apache-2.0
import type { IfaceHistory } from "@patchbay/api";
import { expect, test } from "vitest";
import { printHistory } from "./history.ts";

const HISTORY: IfaceHistory = [
  {
    name: "blue",
    operations: [
      {
        type: "Plug",
        networkName: "default/blue",
        startTimestamp: "2026-01-01T00:00:00.000Z",
        endTimestamp: "2026-01-01T00:00:00.840Z",
        outcome: "Done",
        phases: [
          { phase: "PodAttaching", milliseconds: 510 },
          { phase: "Wiring", milliseconds: 330 },
        ],
        reason: "CniFailed",
        attempts: 3,
      },
      {
        type: "Unplug",
        networkName: "default/blue",
        startTimestamp: "2026-01-01T00:02:00.000Z",
        phases: [{ phase: "Detaching" }],
        reason: "WaitingForGuest",
        attempts: 1,
      },
    ],
  },
  {
    name: "default",
    operations: [
      {
        type: "LinkState",
        linkState: "down",
        startTimestamp: "2026-01-01T00:01:00.000Z",
        outcome: "GuestEnded",
        phases: [],
      },
    ],
  },
];

test("sorts the operations of all interfaces by time", () => {
  expect(
    printHistory(HISTORY)
      .split("\n")
      .map((line) => line.split(/ {3,}/u)),
  ).toEqual([
    ["TIME", "INTERFACE", "OPERATION", "NETWORK", "TOOK", "PHASES", "OUTCOME"],
    [
      "2026-01-01T00:00:00.000Z",
      "blue",
      "Plug",
      "default/blue",
      "0.84 s",
      "PodAttaching 0.51 s, Wiring 0.33 s",
      "Done, was held up by CniFailed, tried 3 times",
    ],
    ["2026-01-01T00:01:00.000Z", "default", "LinkState down", "pod", "-", "-", "GuestEnded"],
    [
      "2026-01-01T00:02:00.000Z",
      "blue",
      "Unplug",
      "default/blue",
      "-",
      "Detaching …",
      "in progress, held up by WaitingForGuest",
    ],
    [""],
  ]);
});

test("reports a VM without operations", () => {
  expect(printHistory([])).toBe("nothing was done while the guest ran\n");
});
