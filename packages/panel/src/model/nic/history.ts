// SPDX-License-Identifier: Apache-2.0
// What was done with a NIC, in words, also before the page was opened. Pure.
import type { IfaceOperation } from "@patchbay/api";
import { durationOf, historyOfVm, sayHold, saySeconds } from "@patchbay/core/history";
import { PHASE_WORDS, type Machine } from "./plug.ts";
import { short } from "../shown.ts";

/** One operation. */
export interface DoneRow {
  /** When it began: date and time, UTC. */
  readonly at: string;
  readonly what: string;
  /** Absent while it goes on. */
  readonly took?: string;
  readonly end: string;
  /** Each phase and how long it lasted, one after another. */
  readonly phases: string;
}

const ENDS: Readonly<Record<NonNullable<IfaceOperation["outcome"]>, string>> = {
  Done: "done",
  Cancelled: "taken back",
  GuestEnded: "ended with the guest",
};

function whatOf({ type, networkName = "the pod's network", linkState }: IfaceOperation): string {
  const network = short(networkName);
  return {
    Plug: `plug into ${network}`,
    Swap: `move to ${network}`,
    Unplug: `pull from ${network}`,
    LinkState: `link ${linkState ?? ""}`,
  }[type];
}

function endOf(operation: IfaceOperation): string {
  const { outcome } = operation;
  const end = outcome === undefined ? "in progress" : ENDS[outcome];
  return [end, sayHold(operation)]
    .filter((words) => words !== undefined)
    .map(short)
    .join(", ");
}

function rowOf(operation: IfaceOperation): DoneRow {
  const ms = durationOf(operation);
  const phases = operation.phases.map(
    ({ phase, milliseconds }) =>
      `${PHASE_WORDS[phase]} ${milliseconds === undefined ? "…" : saySeconds(milliseconds)}`,
  );
  return {
    at: short(operation.startTimestamp.slice(0, 19).replace("T", " ")),
    what: whatOf(operation),
    ...(ms !== undefined && { took: saySeconds(ms) }),
    end: endOf(operation),
    phases: phases.join(", "),
  };
}

/** By the NIC's name, the newest first. */
export function doneWith(machine: Machine): ReadonlyMap<string, readonly DoneRow[]> {
  return new Map(
    historyOfVm(machine).map(({ name, operations }) => [name, operations.map(rowOf).toReversed()]),
  );
}
