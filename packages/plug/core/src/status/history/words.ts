// SPDX-License-Identifier: Apache-2.0
// What people read of an operation.
import type { IfaceOperation } from "@patchbay/api";
import { toMs } from "../../time.ts";

/** How long it took, milliseconds; undefined while it goes on, and where nobody saw its end. */
export function durationOf({
  startTimestamp,
  endTimestamp,
}: Pick<IfaceOperation, "startTimestamp" | "endTimestamp">): number | undefined {
  const [start, end] = [toMs(startTimestamp), toMs(endTimestamp)];
  return start === undefined || end === undefined ? undefined : Math.max(0, end - start);
}

/** What holds it up, or has held it up; undefined: nothing. */
export function sayHold({ outcome, reason, attempts = 0 }: IfaceOperation): string | undefined {
  if (reason === undefined) return undefined;
  const held = outcome === undefined ? "held up by" : "was held up by";
  const tried = attempts > 1 ? `, tried ${String(attempts)} times` : "";
  return `${held} ${reason}${tried}`;
}
