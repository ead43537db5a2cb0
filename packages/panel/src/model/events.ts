// SPDX-License-Identifier: Apache-2.0
// Which events of a VM are shown, and how? Pure.
import type { KubeEvent } from "@patchbay/api";
import { long, short } from "./shown.ts";

/** An event as it is shown. */
export interface EventRow {
  /** When it was last seen, as Kubernetes writes it; empty: not known. */
  readonly at: string;
  readonly isWarning: boolean;
  readonly reason: string;
  readonly message: string;
  /** How often it was seen. */
  readonly count: number;
}

/** Events that are shown of a VM. */
const SHOWN_MAX = 12;
const KINDS = ["VirtualMachine", "VirtualMachineInstance"];

/** An event, as either API of Kubernetes writes it. Source: events.k8s.io/v1 Event */
type AnyEvent = KubeEvent & {
  readonly eventTime?: string;
  readonly series?: { readonly count?: number; readonly lastObservedTime?: string };
};

function rowOf(event: AnyEvent): EventRow {
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

/** Events of a VM and its VMI, the newest first, from a list of the API server. */
export function eventRows(list: string): readonly EventRow[] {
  const { items = [] } = JSON.parse(list) as { readonly items?: readonly AnyEvent[] }; // the API server's own answer
  return items
    .filter(({ involvedObject }) => KINDS.includes(involvedObject.kind ?? ""))
    .map(rowOf)
    .sort((left, right) => right.at.localeCompare(left.at))
    .slice(0, SHOWN_MAX);
}
