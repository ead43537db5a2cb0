// SPDX-License-Identifier: Apache-2.0
import { randomInt } from "node:crypto";
import type { Clock } from "@patchbay/base";

/** Function that returns numbers in [0, 1). */
export type Random = () => number;

export const systemRandom: Random = () => randomInt(2 ** 32) / 2 ** 32;

export interface BackoffRange {
  readonly firstMs: number;
  readonly maxMs: number;
  /** Random fraction of the delay, from 0 to 1, which is "full jitter". */
  readonly jitter: number;
}

/** Returns the delay after at least one consecutive failure: doubled each time, capped, with jitter. */
export function backoffMs(failures: number, range: BackoffRange, random: Random): number {
  const ceiling = Math.min(range.maxMs, range.firstMs * 2 ** Math.min(failures - 1, 30));
  return Math.round(ceiling * (1 - range.jitter * random()));
}

export interface Allowance {
  /** Number of tokens of a full bucket. */
  readonly burst: number;
  /** Milliseconds until one token is restored. */
  readonly refillMs: number;
}

/** Rate limits per key: a burst, then one token in each refill time. */
export interface TokenBuckets {
  take(key: string): boolean;
  has(key: string): boolean;
  forget(key: string): void;
}

const KEYS_MAX = 10_000;

/** Creates buckets that store only when each will be full again ("virtual scheduling"). Source: ITU-T I.371, annex A */
export function createTokenBuckets(clock: Clock, { burst, refillMs }: Allowance): TokenBuckets {
  const fullAtMs = new Map<string, number>();
  const nextFullMs = (key: string): number =>
    Math.max(fullAtMs.get(key) ?? 0, clock.monotonicMs()) + refillMs;
  const has = (key: string): boolean => nextFullMs(key) - clock.monotonicMs() <= burst * refillMs;
  return {
    has,
    take(key): boolean {
      if (!has(key)) return false;
      const next = nextFullMs(key);
      fullAtMs.delete(key);
      fullAtMs.set(key, next);
      const [oldest] = fullAtMs.keys();
      if (fullAtMs.size > KEYS_MAX && oldest !== undefined) fullAtMs.delete(oldest);
      return true;
    },
    forget(key): void {
      fullAtMs.delete(key);
    },
  };
}
