// SPDX-License-Identifier: Apache-2.0
// Findings of the doctor's checks.

/** Result of a check. `warning`: no fault, but attention is needed. `unknown`: the check was impossible, for example without permission. */
export type Verdict = "ok" | "warning" | "wrong" | "unknown";

export interface Finding {
  readonly check: string;
  readonly verdict: Verdict;
  readonly message: string;
  readonly fix?: string;
}

export type Observed<T> = { readonly value: T } | { readonly failure: string };

/** Converts a finding to its JSON output. In the output, `says` is the name of the field `message`. */
export function toFindingJson({ check, verdict, message, fix }: Finding): object {
  return { check, verdict, says: message, ...(fix !== undefined && { fix }) };
}

export function ok(check: string, message: string): Finding {
  return { check, verdict: "ok", message };
}

export function warning(check: string, message: string): Finding {
  return { check, verdict: "warning", message };
}

export function wrong(
  check: string,
  { message, fix }: Pick<Required<Finding>, "message" | "fix">,
): Finding {
  return { check, verdict: "wrong", message, fix };
}

export function unknown(check: string, message: string): Finding {
  return { check, verdict: "unknown", message };
}

export function ifObserved<T>(
  check: string,
  observed: Observed<T>,
  judge: (value: T) => readonly Finding[],
): readonly Finding[] {
  return "value" in observed ? judge(observed.value) : [unknown(check, observed.failure)];
}
