// SPDX-License-Identifier: Apache-2.0
import type { VmiStatus } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { findTargetProblem } from "./ifaces.ts";

const ready = {
  type: "Ready",
  status: "False" as const,
  reason: "NodeUnresponsive",
  message: "node node1 does not answer",
};

test.each<{ name: string; status: VmiStatus; want: string | undefined }>([
  { name: "runs", status: { phase: "Running" }, want: undefined },
  {
    name: "is not running yet",
    status: { phase: "Scheduled", conditions: [ready] },
    want: "VMI is not running",
  },
  {
    name: "is on an unresponsive node",
    status: { phase: "Unknown", conditions: [ready] },
    want: "VMI is not running: node node1 does not answer",
  },
  {
    name: "is in an unknown state without a reason",
    status: { phase: "Unknown" },
    want: "VMI is not running",
  },
])("a VMI that $name", ({ status, want }) => {
  expect(findTargetProblem({ kind: "vmi", vmi: aVmi({ status }) })?.message).toBe(want);
});
