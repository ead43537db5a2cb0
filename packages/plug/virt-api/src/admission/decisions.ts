// SPDX-License-Identifier: Apache-2.0
// What becomes of the API server's questions, in numbers.
import type { Metrics } from "@patchbay/telemetry";

/** One question, and what became of it. */
export interface Decision {
  readonly webhook: "mutate" | "validate";
  readonly operation: "CREATE" | "UPDATE";
  /** Failed: none, because of an error here. */
  readonly decision: "allowed" | "denied" | "failed";
}

/** Counts them as `patchbay_admission_decisions_total`. */
export function createDecisionCounter(
  metrics: Pick<Metrics, "addCounter">,
): (decision: Decision) => void {
  const count = metrics.addCounter({
    name: "patchbay_admission_decisions_total",
    help: "Questions of the API server at admission, by what became of them.",
    labelNames: ["webhook", "operation", "decision"],
  });
  return (decision) => {
    count({ ...decision });
  };
}
