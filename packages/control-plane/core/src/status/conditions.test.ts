// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { withTransitionTimes, type Conditions } from "./conditions.ts";

const EARLIER = "2026-01-01T00:00:00.000Z";
const NOW = "2026-01-01T01:00:00.000Z";
const FALSE = { type: "Ready", status: "False", reason: "Why", message: "so" } as const;

describe("the time of a condition", () => {
  test.each<{ name: string; stored: Conditions | undefined; time: string }>([
    { name: "is now where there was none", stored: undefined, time: NOW },
    {
      name: "is now where there was another",
      stored: [{ type: "Synchronized", status: "False", lastTransitionTime: EARLIER }],
      time: NOW,
    },
    {
      name: "is now when the status is another",
      stored: [{ type: "Ready", status: "True", lastTransitionTime: EARLIER }],
      time: NOW,
    },
    {
      name: "stays while the status is the same, whatever the words",
      stored: [{ type: "Ready", status: "False", reason: "Other", lastTransitionTime: EARLIER }],
      time: EARLIER,
    },
    {
      name: "is now where somebody left it out",
      stored: [{ type: "Ready", status: "False" }],
      time: NOW,
    },
  ])("$name", ({ stored, time }) => {
    expect(withTransitionTimes([FALSE], stored, NOW)).toEqual([
      { ...FALSE, lastTransitionTime: time },
    ]);
  });
});
