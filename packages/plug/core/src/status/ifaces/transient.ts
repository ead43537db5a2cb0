// SPDX-License-Identifier: Apache-2.0
// Which news of ifaces is over in a moment, most of the time, so that it need not be told at once?
import type { IfacePhase, IfaceStatus } from "@patchbay/api";
import { isEqual } from "../../equal.ts";
import { findByName } from "../../spec/nics.ts";

/** A plug that waits for the pod, of which virt-controller knows more. */
const WAITING: readonly (IfacePhase | undefined)[] = ["Pending", "PodAttaching"];

function isWaiting({ hotplug }: IfaceStatus): boolean {
  return WAITING.includes(hotplug?.phase) && hotplug?.reason === undefined;
}

/** The guest was asked for the first time, and has not answered yet. */
function isAsked({ hotplug }: IfaceStatus): boolean {
  return (
    hotplug?.phase === "Detaching" &&
    (hotplug.reason === undefined ||
      (hotplug.reason === "WaitingForGuest" && (hotplug.attempts ?? 0) <= 1))
  );
}

function isTransient(before: IfaceStatus | undefined, after: IfaceStatus): boolean {
  if (before === undefined) return isWaiting(after);
  if (isEqual(before, after)) return true;
  const { hotplug } = after;
  const isOnly = isEqual({ ...before, hotplug }, after);
  // What was wrong, and is not any more, is told.
  if (!isOnly || before.hotplug?.reason !== undefined) return false;
  return (isWaiting(before) && isWaiting(after)) || isAsked(after);
}

/** Whether nothing else is new than that a plug waits for its pod, or that the guest was asked to let go. */
export function isTransientChange(
  before: readonly IfaceStatus[],
  after: readonly IfaceStatus[],
): boolean {
  const own = (list: readonly IfaceStatus[]): readonly IfaceStatus[] =>
    list.filter(({ name }) => name === undefined);
  const named = after.filter(({ name }) => name !== undefined);
  return (
    isEqual(own(before), own(after)) &&
    before.every(({ name }) => name === undefined || findByName(named, name) !== undefined) &&
    named.every((status) => isTransient(findByName(before, status.name ?? ""), status))
  );
}
