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
  /** Stable identifier, listed in docs/doctor.md. Set for a dead hop, and for an unknown hop if a possible cause is known. */
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

export type FixValues = Readonly<Partial<Record<FixWord, string>>>;

type FixWord =
  | ("ADDRESS" | "BRIDGE" | "CIDR" | "DEV" | "INTERFACE" | "LENGTH")
  | ("MAC" | "MTU" | "NAMESPACE" | "SIZE" | "VLAN" | "VM");

/** A hop's report before {@link printFix} replaces the placeholders in the fix. */
export interface Verdict extends Omit<HopReport, "hop"> {
  readonly values?: FixValues;
}

function withName(name: string | undefined): Pick<Verdict, "name"> {
  return name === undefined ? {} : { name };
}

export function ok(why: string, name?: string): Verdict {
  return { ...withName(name), state: "ok", why };
}

export function dead(
  reason: DoctorReason,
  why: string,
  name?: string,
  values: FixValues = {},
): Verdict {
  return { ...withName(name), state: "dead", reason, why, fix: DOCTOR_FIXES[reason], values };
}

/** Builds a verdict on a hop that may have a fault. `reason` names the observed state, in which the hop may also be healthy. */
export function uncertain(reason: DoctorReason, why: string, values: FixValues = {}): Verdict {
  return { state: "unknown", reason, why, fix: DOCTOR_FIXES[reason], values };
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

/** Quotes a value for a shell unless it is plain. Quotes are needed because guests and tenants choose some values. */
function quote(value: string): string {
  return /^[\w.:/-]*$/.test(value) ? value : `'${value.replaceAll("'", String.raw`'\''`)}'`;
}

const KERNEL_TOOL = /^(?:bridge|ethtool|ip|nft|sysctl|tc|tcpdump) /;

/** Replaces placeholders in a fix's commands. If `netns` is set, network commands run in the network namespace with this inode. */
export function printFix(fix: string, values: FixValues, netns?: string): string {
  const known = new Map(Object.entries(values));
  return fix.replaceAll(/`([^`]*)`/g, (_whole, command: string) => {
    const words = command.split(" ").map((word) => {
      const parts = word.split(/\b([A-Z]{2,})\b/);
      return parts.map((part) => (known.has(part) ? quote(known.get(part) ?? "") : part)).join("");
    });
    const text = words.filter((word) => word !== "").join(" ");
    const isElsewhere = netns !== undefined && KERNEL_TOOL.test(text);
    return isElsewhere
      ? `\`nsenter -n -t $(lsns -no PID ${netns} | head -n 1) ${text}\``
      : `\`${text}\``;
  });
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
