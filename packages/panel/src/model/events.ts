// SPDX-License-Identifier: Apache-2.0
import type { KubeEvent } from "@patchbay/api/kubernetes";
import { long, short } from "./shown.ts";

export interface EventRow {
  /** Time of the last occurrence, in Kubernetes' notation; empty if unknown. */
  readonly at: string;
  readonly isWarning: boolean;
  readonly reason: string;
  readonly message: string;
  readonly count: number;
}

const ROWS_MAX = 12;
const KINDS = ["VirtualMachine", "VirtualMachineInstance"];

/** Event of either API. Source: Event of events.k8s.io/v1. */
type AnyEvent = KubeEvent & {
  readonly eventTime?: string;
  readonly series?: { readonly count?: number; readonly lastObservedTime?: string };
};

function toRow(event: AnyEvent): EventRow {
  const { series, lastTimestamp, eventTime, metadata } = event;
  const at = series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? metadata.creationTimestamp;
  return {
    at: short(at ?? ""),
    isWarning: event.type === "Warning",
    reason: short(event.reason),
    message: long(event.message),
    count: series?.count ?? event.count ?? 1,
  };
}

/** Parses a list of events. Returns those of the VM and its VMI, newest first. */
export function parseEventRows(list: string): readonly EventRow[] {
  const { items = [] } = JSON.parse(list) as { readonly items?: readonly AnyEvent[] }; // the API server's response
  return items
    .filter(({ involvedObject }) => KINDS.includes(involvedObject.kind ?? ""))
    .map(toRow)
    .sort((left, right) => right.at.localeCompare(left.at))
    .slice(0, ROWS_MAX);
}
