// SPDX-License-Identifier: Apache-2.0
// Findings of the doctor's checks.

/** `warning`: it works and needs attention; `unknown`: the check failed, for example because the user lacks a permission. */
export type Verdict = "ok" | "warning" | "wrong" | "unknown";

export interface Finding {
  /** Checked object, for example `node n1`. */
  readonly check: string;
  readonly verdict: Verdict;
  /** Observed state; for a fault also its consequences. */
  readonly says: string;
  /** What to do; set for every fault. */
  readonly fix?: string;
}

/** An observed value, or why it could not be observed. */
export type Observed<T> = { readonly value: T } | { readonly failure: string };

export function ok(check: string, says: string): Finding {
  return { check, verdict: "ok", says };
}

export function warning(check: string, says: string): Finding {
  return { check, verdict: "warning", says };
}

export function wrong(
  check: string,
  { says, fix }: Pick<Required<Finding>, "says" | "fix">,
): Finding {
  return { check, verdict: "wrong", says, fix };
}

export function unknown(check: string, says: string): Finding {
  return { check, verdict: "unknown", says };
}

export function ifObserved<T>(
  check: string,
  observed: Observed<T>,
  judge: (value: T) => readonly Finding[],
): readonly Finding[] {
  return "value" in observed ? judge(observed.value) : [unknown(check, observed.failure)];
}
