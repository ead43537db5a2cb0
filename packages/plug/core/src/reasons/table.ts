// SPDX-License-Identifier: Apache-2.0
// Every reason for which an iface waits: what it means, who acts next, which event tells of it, what can be done.
import { REASONS_IN_POD } from "./in-pod.ts";
import { REASONS_ON_NODE } from "./on-node.ts";
import type { ReasonEntry } from "./reason.ts";

/** The table; `docs/reference/reasons.md` is made from it. */
export const REASONS = { ...REASONS_IN_POD, ...REASONS_ON_NODE } as const;

/** A stable word in CamelCase, as `hotplug.reason` and `status.hindrance` have it. */
export type Reason = keyof typeof REASONS;

function isReason(text: string): text is Reason {
  return Object.hasOwn(REASONS, text);
}

/** The type of the event that tells once of a reason that was reported; undefined: none does. Unknown ones are warned of. */
export function eventTypeOf(reason: string): "Warning" | "Normal" | undefined {
  const { event }: Pick<ReasonEntry, "event"> = isReason(reason)
    ? REASONS[reason]
    : { event: "Warning" };
  return event === "none" ? undefined : event;
}

/** Who can help where an iface waits for a reason; undefined where that is not known, or nobody is needed. */
export function helperOn(reason: string | undefined): string | undefined {
  return reason === undefined || !isReason(reason) ? undefined : REASONS[reason].who;
}

/** What has to happen before a phase's own step; undefined where the step itself is what is waited for. */
export function nextOn(reason: string | undefined): string | undefined {
  if (reason === undefined || !isReason(reason)) return undefined;
  const entry: ReasonEntry = REASONS[reason];
  return entry.next;
}

/** What a person can do about a reason; undefined where its words say it already. */
export function adviceOn(reason: Reason): string | undefined {
  const entry: ReasonEntry = REASONS[reason];
  return entry.advice;
}
