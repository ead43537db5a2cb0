// SPDX-License-Identifier: Apache-2.0
// What the doctor says of one thing that it looked at.

/** `warning`: it works, and someone should know of it; `unknown`: it could not look, for want of a right for one. */
export type Verdict = "ok" | "warning" | "wrong" | "unknown";

/** One line of the doctor's. */
export interface Finding {
  /** What was looked at, for example `node n1`. */
  readonly check: string;
  readonly verdict: Verdict;
  /** What was seen; of what is wrong, what follows from it too. */
  readonly says: string;
  /** What to do; of everything that is wrong. */
  readonly fix?: string;
}

/** What was asked for, or why it cannot be known. */
export type Asked<T> = { readonly seen: T } | { readonly unseen: string };

/** What is as it must be. */
export function ok(check: string, says: string): Finding {
  return { check, verdict: "ok", says };
}

/** What works and needs attention. */
export function warning(check: string, says: string): Finding {
  return { check, verdict: "warning", says };
}

/** What is not, and what to do about it. */
export function wrong(
  check: string,
  { says, fix }: Pick<Required<Finding>, "says" | "fix">,
): Finding {
  return { check, verdict: "wrong", says, fix };
}

/** What could not be looked at. */
export function unknown(check: string, says: string): Finding {
  return { check, verdict: "unknown", says };
}

/** What is found of something that was asked for, where it was seen. */
export function ifSeen<T>(
  check: string,
  asked: Asked<T>,
  judge: (seen: T) => readonly Finding[],
): readonly Finding[] {
  return "seen" in asked ? judge(asked.seen) : [unknown(check, asked.unseen)];
}
