// SPDX-License-Identifier: Apache-2.0
import type { VmiPhase } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { hasRun } from "./has-run.ts";

test.each<{ phase: VmiPhase; before: readonly VmiPhase[]; want: boolean }>([
  { phase: "Running", before: [], want: true },
  { phase: "Scheduled", before: ["Scheduling"], want: false },
  { phase: "Unknown", before: ["Scheduled", "Running"], want: true },
  { phase: "Unknown", before: ["Scheduled"], want: false },
  { phase: "Failed", before: ["Running"], want: false },
])("whether a guest has run: $phase after $before", ({ phase, before, want }) => {
  const phaseTransitionTimestamps = before.map((each) => ({
    phase: each,
    phaseTransitionTimestamp: "2026-01-01T00:00:00Z",
  }));
  expect(hasRun(aVmi({ status: { phase, phaseTransitionTimestamps } }))).toBe(want);
  expect(hasRun(aVmi({ status: { phase } }))).toBe(phase === "Running");
});
