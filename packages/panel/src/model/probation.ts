// SPDX-License-Identifier: Apache-2.0
// Checks of new plugs: which changes are checked, and how the result is reported. Pure.
import type { DoctorReport } from "@patchbay/core/doctor";
import type { Change } from "./changes.ts";
import { long } from "./shown.ts";
import type { Unit } from "./unit.ts";
import type { Verdict } from "./verdict.ts";

export interface Probation {
  /** Whether to check that frames pass when the plug is in use. */
  readonly isOn: boolean;
  /** Whether the interface stays plugged if frames do not pass. */
  readonly keepsFaulty: boolean;
}

export const NO_PROBATION: Probation = { isOn: false, keepsFaulty: false };

export type PlugChange = Extract<Change, { kind: "plug" }>;

/** Returns the change if the guest gets the plug at once; otherwise undefined, because nothing can be checked. */
export function checkable(change: Change, verdict: Verdict | undefined): PlugChange | undefined {
  return change.kind === "plug" && verdict?.kind === "live" ? change : undefined;
}

export function isInUse(unit: Unit | undefined, iface: string): boolean {
  const plug = unit?.plugs.find(({ name }) => name === iface);
  return plug?.tone === "ready";
}

export function describeFault({ firstDead, hops }: DoctorReport): string | undefined {
  const dead = hops.find(({ hop }) => hop === firstDead);
  return dead === undefined ? undefined : long(`frames die at ${dead.hop}: ${dead.why}`);
}

/** Returns why a faulty interface stays plugged; undefined if it is unplugged. */
export function findReasonToStay(
  { isUnplugReason }: DoctorReport,
  keepsFaulty: boolean,
): string | undefined {
  if (keepsFaulty) return "it stays, as you chose";
  return isUnplugReason ? undefined : "it stays, because the fault is not in the guest or its pod";
}

export function probationFlags({ isOn, keepsFaulty }: Probation): readonly string[] {
  if (!isOn) return [];
  return keepsFaulty ? ["--check", "--keep"] : ["--check"];
}
