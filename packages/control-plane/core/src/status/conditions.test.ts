// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { withTransitionTimes, type Conditions } from "./conditions.ts";

const EARLIER = "2026-01-01T00:00:00.000Z";
const NOW = "2026-01-01T01:00:00.000Z";
const FALSE = { type: "Ready", status: "False", reason: "Why", message: "so" } as const;

describe("the time of a condition", () => {
  test.each<{ name: string; stored: Conditions | undefined; time: string }>([
    { name: "is now without an earlier condition", stored: undefined, time: NOW },
    {
      name: "is now beside a different condition",
      stored: [{ type: "Synchronized", status: "False", lastTransitionTime: EARLIER }],
      time: NOW,
    },
    {
      name: "is now for a changed status",
      stored: [{ type: "Ready", status: "True", lastTransitionTime: EARLIER }],
      time: NOW,
    },
    {
      name: "stays for the same status, regardless of the message",
      stored: [{ type: "Ready", status: "False", reason: "Other", lastTransitionTime: EARLIER }],
      time: EARLIER,
    },
    {
      name: "is now if the earlier time is missing",
      stored: [{ type: "Ready", status: "False" }],
      time: NOW,
    },
  ])("$name", ({ stored, time }) => {
    expect(withTransitionTimes([FALSE], stored, NOW)).toEqual([
      { ...FALSE, lastTransitionTime: time },
    ]);
  });
});
