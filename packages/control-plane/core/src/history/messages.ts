// SPDX-License-Identifier: Apache-2.0
import type { IfaceOperation } from "@patchbay/api";
import { toMs } from "@patchbay/base";

/** Returns the duration in milliseconds. Undefined if the operation is active or its end is unknown. */
export function computeDurationMs({
  startTimestamp,
  endTimestamp,
}: Pick<IfaceOperation, "startTimestamp" | "endTimestamp">): number | undefined {
  const [startMs, endMs] = [toMs(startTimestamp), toMs(endTimestamp)];
  return startMs === undefined || endMs === undefined ? undefined : Math.max(0, endMs - startMs);
}

export function describeDelay({
  outcome,
  reason,
  attempts = 0,
}: IfaceOperation): string | undefined {
  if (reason === undefined) return undefined;
  const prefix = outcome === undefined ? "held up by" : "was held up by";
  const attemptsText = attempts > 1 ? `, tried ${String(attempts)} times` : "";
  return `${prefix} ${reason}${attemptsText}`;
}

const MS_PER_SECOND = 1000;

export function printSeconds(ms: number): string {
  const seconds = ms / MS_PER_SECOND;
  return `${seconds.toFixed(seconds < 10 ? 2 : 0)} s`;
}
