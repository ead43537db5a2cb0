// SPDX-License-Identifier: Apache-2.0
import type { IfaceOperation } from "@patchbay/api";
import { toMs } from "@patchbay/base";

/** Returns the duration in milliseconds. Undefined while the operation is active, or if its end was not observed. */
export function computeDurationMs({
  startTimestamp,
  endTimestamp,
}: Pick<IfaceOperation, "startTimestamp" | "endTimestamp">): number | undefined {
  const [start, end] = [toMs(startTimestamp), toMs(endTimestamp)];
  return start === undefined || end === undefined ? undefined : Math.max(0, end - start);
}

export function describeDelay({
  outcome,
  reason,
  attempts = 0,
}: IfaceOperation): string | undefined {
  if (reason === undefined) return undefined;
  const prefix = outcome === undefined ? "held up by" : "was held up by";
  const tried = attempts > 1 ? `, tried ${String(attempts)} times` : "";
  return `${prefix} ${reason}${tried}`;
}

const MS_PER_SECOND = 1000;

export function printSeconds(ms: number): string {
  const seconds = ms / MS_PER_SECOND;
  return `${seconds.toFixed(seconds < 10 ? 2 : 0)} s`;
}
