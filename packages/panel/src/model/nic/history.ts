// SPDX-License-Identifier: Apache-2.0
// Lists the operations on NICs, including those that started before the page was opened.
import type { IfaceOperation } from "@patchbay/api";
import {
  computeDurationMs,
  mergeVmHistory,
  describeDelay,
  printSeconds,
} from "@patchbay/core/history";
import { PHASE_LABELS, type VmObjects } from "./plug.ts";
import { toShortText } from "../shown.ts";

export interface OperationRow {
  /** Date and time of the start, in UTC. */
  readonly startTime: string;
  readonly what: string;
  readonly duration?: string;
  readonly end: string;
  readonly phases: string;
}

const OUTCOMES: Readonly<Record<NonNullable<IfaceOperation["outcome"]>, string>> = {
  Done: "done",
  Cancelled: "canceled",
  GuestEnded: "ended with the guest",
};

function describeOperation({
  type,
  networkName = "the pod's network",
  linkState,
}: IfaceOperation): string {
  const network = toShortText(networkName);
  return {
    Plug: `plug into ${network}`,
    Swap: `move to ${network}`,
    Unplug: `pull from ${network}`,
    LinkState: `link ${linkState ?? ""}`,
  }[type];
}

function describeEnd(operation: IfaceOperation): string {
  const { outcome } = operation;
  const end = outcome === undefined ? "in progress" : OUTCOMES[outcome];
  return [end, describeDelay(operation)]
    .filter((text) => text !== undefined)
    .map(toShortText)
    .join(", ");
}

function toRow(operation: IfaceOperation): OperationRow {
  const ms = computeDurationMs(operation);
  const phases = operation.phases.map(
    ({ phase, milliseconds }) =>
      `${PHASE_LABELS[phase]} ${milliseconds === undefined ? "…" : printSeconds(milliseconds)}`,
  );
  return {
    startTime: toShortText(operation.startTimestamp.slice(0, 19).replace("T", " ")),
    what: describeOperation(operation),
    ...(ms !== undefined && { duration: printSeconds(ms) }),
    end: describeEnd(operation),
    phases: phases.join(", "),
  };
}

export function listOperations(objects: VmObjects): ReadonlyMap<string, readonly OperationRow[]> {
  return new Map(
    mergeVmHistory(objects).map(({ name, operations }) => [
      name,
      operations.map(toRow).toReversed(),
    ]),
  );
}
