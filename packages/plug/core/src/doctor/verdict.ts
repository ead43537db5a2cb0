// SPDX-License-Identifier: Apache-2.0
// The four things that can be said of a hop.
import type { HopReport } from "./report.ts";
import { DOCTOR_FIXES, type DoctorReason } from "./reasons.ts";

/** What is said of a hop, but for which it is. */
export type Verdict = Omit<HopReport, "hop">;

function named(name: string | undefined): Pick<Verdict, "name"> {
  return name === undefined ? {} : { name };
}

/** Frames pass. */
export function ok(why: string, name?: string): Verdict {
  return { ...named(name), state: "ok", why };
}

/** They do not. */
export function dead(reason: DoctorReason, why: string, name?: string): Verdict {
  const text: string = DOCTOR_FIXES[reason];
  const fix = name === undefined ? text : text.replaceAll(/\bDEV\b/g, () => name);
  return { ...named(name), state: "dead", reason, why, fix };
}

/** The verdict with this before its fix. */
export function withFix(first: string, verdict: Verdict): Verdict {
  return { ...verdict, fix: `${first}${verdict.fix ?? ""}` };
}

/** Nothing is known. */
export function unknown(why: string, name?: string): Verdict {
  return { ...named(name), state: "unknown", why };
}

/** There is no such hop. */
export function absent(why: string): Verdict {
  return { state: "notApplicable", why };
}

/** The first that says something. */
export function firstOf(...judges: readonly (() => Verdict | undefined)[]): Verdict | undefined {
  for (const judge of judges) {
    const verdict = judge();
    if (verdict !== undefined) return verdict;
  }
  return undefined;
}
