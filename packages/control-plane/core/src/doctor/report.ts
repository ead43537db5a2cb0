// SPDX-License-Identifier: Apache-2.0
import { DOCTOR_FIXES, type DoctorReason } from "./reasons.ts";

/** Hops in path order, from the guest outward. `addresses` and `translation` are services of the pod. */
export const HOPS = [
  ...(["guest", "device", "tap", "podBridge", "addresses", "translation", "podNic"] as const),
  ...(["nodePeer", "nodeBridge", "uplink", "gateway"] as const),
] as const;

export type HopName = (typeof HOPS)[number];

/** `ok`: the hop passes frames. `dead`: it loses frames. `unknown`: neither is proven. `notApplicable`: the path has no such hop. */
export type HopState = "ok" | "dead" | "unknown" | "notApplicable";

export interface HopReport {
  readonly hop: HopName;
  readonly name?: string;
  readonly state: HopState;
  /** Stable identifier, listed in docs/doctor.md. Set only if the hop is dead. */
  readonly reason?: string;
  readonly why: string;
  readonly fix?: string;
}

export interface DoctorReport {
  /** The VMI as NAMESPACE/NAME. */
  readonly vmi: string;
  readonly interface: string;
  readonly hops: readonly HopReport[];
  /** First dead hop in path order. Unset if no hop is dead. */
  readonly firstDead?: HopName;
  /** Whether the fault is certain and located in the guest or its pod. If true, `addinterface --check` unplugs the interface. */
  readonly isUnplugReason: boolean;
  readonly milliseconds: number;
}

export type Verdict = Omit<HopReport, "hop">;

function withName(name: string | undefined): Pick<Verdict, "name"> {
  return name === undefined ? {} : { name };
}

export function ok(why: string, name?: string): Verdict {
  return { ...withName(name), state: "ok", why };
}

/** Values for the words in capitals in a fix. A word without a value stays as it is. */
type FixValues = Partial<Readonly<Record<"ADDRESS" | "BRIDGE" | "MAC" | "VLAN", string>>>;

export function dead(
  reason: DoctorReason,
  why: string,
  name?: string,
  values: FixValues = {},
): Verdict {
  const text: string = DOCTOR_FIXES[reason];
  const known = new Map(Object.entries({ DEV: name, ...values }));
  const fix = text.replaceAll(/\b[A-Z]{3,}\b/g, (word) => known.get(word) ?? word);
  return { ...withName(name), state: "dead", reason, why, fix };
}

export function withFix(advice: string, verdict: Verdict): Verdict {
  return { ...verdict, fix: `${advice}${verdict.fix ?? ""}` };
}

export function unknown(why: string, name?: string): Verdict {
  return { ...withName(name), state: "unknown", why };
}

export function notApplicable(why: string): Verdict {
  return { state: "notApplicable", why };
}

export function findFirstVerdict(
  ...judges: readonly (() => Verdict | undefined)[]
): Verdict | undefined {
  for (const judge of judges) {
    const verdict = judge();
    if (verdict !== undefined) return verdict;
  }
  return undefined;
}
