// SPDX-License-Identifier: Apache-2.0
// Plugs on probation: which changes can be, when their frames are looked for, and what is said of what was found. Pure.
import type { DoctorReport } from "@patchbay/core";
import type { Change } from "./changes.ts";
import { long } from "./shown.ts";
import type { Unit } from "./unit.ts";
import type { Verdict } from "./verdict.ts";

/** What becomes of what is plugged into guests that run. */
export interface Probation {
  /** Whether its frames are looked for, once it is in use. */
  readonly isOn: boolean;
  /** Whether it stays also where they die. */
  readonly keeps: boolean;
}

/** Nobody looks. */
export const NO_PROBATION: Probation = { isOn: false, keeps: false };

/** A plug. */
export type PlugChange = Extract<Change, { kind: "plug" }>;

/** The plug that a change is, where the guest gets it at once; undefined: there is nothing to look at. */
export function checkable(change: Change, verdict: Verdict | undefined): PlugChange | undefined {
  return change.kind === "plug" && verdict?.kind === "live" ? change : undefined;
}

/** Whether the guest has it now. */
export function isInUse(unit: Unit | undefined, iface: string): boolean {
  const plug = unit?.plugs.find(({ name }) => name === iface);
  return plug?.tone === "ready";
}

/** The words for a plug whose frames were looked for; undefined: they pass. */
export function complaintOf({ firstDead, hops }: DoctorReport): string | undefined {
  const dead = hops.find(({ hop }) => hop === firstDead);
  return dead === undefined ? undefined : long(`frames die at ${dead.hop}: ${dead.why}`);
}

/** Why an interface that does not work stays plugged; undefined: it is unplugged. */
export function stayOf({ isUnplugReason }: DoctorReport, keeps: boolean): string | undefined {
  if (keeps) return "it stays, as you chose";
  return isUnplugReason ? undefined : "it stays, because the fault is not in the guest or its pod";
}

/** The flags of `addinterface` that do the same. */
export function probationFlags({ isOn, keeps }: Probation): readonly string[] {
  if (!isOn) return [];
  return keeps ? ["--check", "--keep"] : ["--check"];
}
