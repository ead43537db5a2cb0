// SPDX-License-Identifier: Apache-2.0
// How long to wait before the next attempt?
import { randomInt } from "node:crypto";

/** Gives numbers from 0 to below 1. */
export type Random = () => number;

/** Even randomness from the system. */
export const systemRandom: Random = () => randomInt(2 ** 32) / 2 ** 32;

/** Bounds of an exponential backoff. */
export interface BackoffRange {
  readonly firstMs: number;
  readonly maxMs: number;
  /** Part of the wait that is random, 0 to 1; 1 is "full jitter". */
  readonly jitter: number;
}

/** The wait after `failures` failures in a row (1 or more): doubled each time, capped, jittered. */
export function backoffMs(failures: number, range: BackoffRange, random: Random): number {
  const ceiling = Math.min(range.maxMs, range.firstMs * 2 ** Math.min(failures - 1, 30));
  return Math.round(ceiling * (1 - range.jitter * random()));
}
