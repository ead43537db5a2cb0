// SPDX-License-Identifier: Apache-2.0
import { randomInt } from "node:crypto";
import type { Clock } from "@patchbay/base";

/** Returns a random number of at least 0 and less than 1. */
export type Random = () => number;

export const systemRandom: Random = () => randomInt(2 ** 32) / 2 ** 32;

export interface BackoffRange {
  readonly firstMs: number;
  readonly maxMs: number;
  /** Maximum random reduction of a delay, as a fraction: 0 for no jitter, 1 for "full jitter". */
  readonly jitter: number;
}

/** Returns the delay after `failures` consecutive failures. Each failure doubles the delay, up to `maxMs`. */
export function computeBackoffMs(failures: number, range: BackoffRange, random: Random): number {
  const ceiling = Math.min(range.maxMs, range.firstMs * 2 ** Math.min(failures - 1, 30));
  return Math.round(ceiling * (1 - range.jitter * random()));
}

export interface RateLimit {
  readonly burst: number;
  /** Milliseconds after which one token is added. */
  readonly refillMs: number;
}

/** Rate limiters per key: each bucket allows a burst, and afterwards one event per refill time. */
export interface TokenBuckets {
  take(key: string): boolean;
  has(key: string): boolean;
  forget(key: string): void;
}

const KEYS_MAX = 10_000;

/** Creates token buckets. Stores only the time at which each bucket will be full. Source: ITU-T I.371, annex A */
export function createTokenBuckets(clock: Clock, { burst, refillMs }: RateLimit): TokenBuckets {
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
