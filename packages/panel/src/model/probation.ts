// SPDX-License-Identifier: Apache-2.0
// Checks of new plugs: which changes are checked, and how the result is reported.
import type { DoctorReport } from "@patchbay/core/doctor";
import type { Change } from "./changes.ts";
import { toLongText } from "./shown.ts";
import type { Unit } from "./unit.ts";
import type { Verdict } from "./verdict.ts";

export interface PlugCheck {
  /** Whether to test a new interface as soon as the guest uses it. The test checks that frames pass. */
  readonly isOn: boolean;
  /** Whether the interface stays plugged if frames do not pass. */
  readonly keepsFaulty: boolean;
}

export const NO_PLUG_CHECK: PlugCheck = { isOn: false, keepsFaulty: false };

export type PlugChange = Extract<Change, { kind: "plug" }>;

/** Returns the change if it is a plug that takes effect immediately. Returns undefined for other changes, which cannot be checked. */
export function findCheckableChange(
  change: Change,
  verdict: Verdict | undefined,
): PlugChange | undefined {
  return change.kind === "plug" && verdict?.kind === "live" ? change : undefined;
}

export function isInUse(unit: Unit | undefined, iface: string): boolean {
  const plug = unit?.plugs.find(({ name }) => name === iface);
  return plug?.tone === "ready";
}

export function describeFault({ firstDead, hops }: DoctorReport): string | undefined {
  const dead = hops.find(({ hop }) => hop === firstDead);
  return dead === undefined ? undefined : toLongText(`frames die at ${dead.hop}: ${dead.why}`);
}

/** Returns why a faulty interface stays plugged; undefined if it must be unplugged. */
export function findReasonToStay(
  { isUnplugReason }: DoctorReport,
  keepsFaulty: boolean,
): string | undefined {
  if (keepsFaulty) return "it stays, as you chose";
  return isUnplugReason ? undefined : "it stays, because the fault is not in the guest or its pod";
}

export function plugCheckFlags({ isOn, keepsFaulty }: PlugCheck): readonly string[] {
  if (!isOn) return [];
  return keepsFaulty ? ["--check", "--keep"] : ["--check"];
}
