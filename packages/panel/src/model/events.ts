// SPDX-License-Identifier: Apache-2.0
import type { KubeEvent } from "@patchbay/api/kubernetes";
import { toLongText, toShortText } from "./shown.ts";

export interface EventRow {
  /** RFC 3339 time of the last occurrence; empty if unknown. */
  readonly lastTime: string;
  readonly isWarning: boolean;
  readonly reason: string;
  readonly message: string;
  readonly count: number;
}

const ROWS_MAX = 12;
const KINDS = ["VirtualMachine", "VirtualMachineInstance"];

/** Event of core/v1 or events.k8s.io/v1. */
type AnyEvent = KubeEvent & {
  readonly eventTime?: string;
  readonly series?: { readonly count?: number; readonly lastObservedTime?: string };
};

function toRow(event: AnyEvent): EventRow {
  const { series, lastTimestamp, eventTime, metadata } = event;
  const lastTime =
    series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? metadata.creationTimestamp;
  return {
    lastTime: toShortText(lastTime ?? ""),
    isWarning: event.type === "Warning",
    reason: toShortText(event.reason),
    message: toLongText(event.message),
    count: series?.count ?? event.count ?? 1,
  };
}

/** Parses a list of events. Returns the latest {@link ROWS_MAX} events about VMs and VMIs, newest first. */
export function parseEventRows(list: string): readonly EventRow[] {
  const { items = [] } = JSON.parse(list) as { readonly items?: readonly AnyEvent[] };
  return items
    .filter(({ involvedObject }) => KINDS.includes(involvedObject.kind ?? ""))
    .map(toRow)
    .sort((left, right) => right.lastTime.localeCompare(left.lastTime))
    .slice(0, ROWS_MAX);
}
