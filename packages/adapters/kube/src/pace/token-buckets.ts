// SPDX-License-Identifier: Apache-2.0
// Has a key had enough for now? Some at once, then one in a while, each key for itself.
import type { Clock } from "@patchbay/core/ports";

/** What each key is allowed. */
export interface Allowance {
  /** How many at once, when nothing was taken for long. */
  readonly burst: number;
  /** Time in which one comes back, milliseconds. */
  readonly refillMs: number;
}

/** Token buckets by key. */
export interface TokenBuckets {
  /** Takes one of the key's; false: it has none left. */
  take(key: string): boolean;
  /** Whether the key has one left. */
  has(key: string): boolean;
  /** Gives the key a full bucket. */
  forget(key: string): void;
}

/** Most keys that are remembered; the one that took longest ago is forgotten first. */
const KEYS_MAX = 10_000;

/**
 * Buckets that are full at first. A bucket is one number: the time at which it will be full again, which each
 * token puts off (the "virtual scheduling" form of a leaky bucket. Source: ITU-T I.371, annex A).
 */
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
      fullAtMs.delete(key); // behind the others, as the last one that took
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
