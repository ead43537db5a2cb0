// SPDX-License-Identifier: Apache-2.0
// How accommodating the server is to watches. Tests use the strict behavior.
import type { Kind } from "../kinds/kind.ts";
import { bucketOf } from "../kinds/kind.ts";

export interface WatchRequest {
  readonly kind: Kind;
  readonly namespace: string;
  readonly query: URLSearchParams;
  readonly user: string;
  /** 0 starts with all current objects. */
  readonly revision: number;
}

export interface WatchBehavior {
  readonly sendsIdleBookmarks: boolean;
  limitTimeoutMs(timeoutMs: number): number;
  /** Whether to answer 410 although the store still has the revision. */
  mustRelist(request: WatchRequest): boolean;
}

export const LENIENT_WATCH_BEHAVIOR: WatchBehavior = {
  sendsIdleBookmarks: true,
  limitTimeoutMs: (timeoutMs) => timeoutMs,
  mustRelist: () => false,
};

/** Strict watches end after 1 to 2 times this, so that tests see the end. */
const STRICT_TIMEOUT_MS = 5000;

/** Limits the memory for clients that have had their 410. */
const REMEMBERED_MAX = 10_000;

/**
 * Like a cluster's server after a restart: the first watch from an earlier revision gets a 410. `random` returns 0 to
 * 1.
 */
export function makeStrictWatchBehavior(
  startRevision: number,
  random: () => number,
): WatchBehavior {
  const relisted = new Set<string>();
  return {
    sendsIdleBookmarks: false,
    limitTimeoutMs: (timeoutMs) =>
      Math.min(timeoutMs, Math.round(STRICT_TIMEOUT_MS * (1 + random()))),
    mustRelist: ({ kind, namespace, query, user, revision }) => {
      if (revision === 0 || revision > startRevision) {
        return false;
      }
      const selectors = [query.get("labelSelector"), query.get("fieldSelector")];
      const id = JSON.stringify([user, bucketOf(kind), namespace, ...selectors]);
      if (relisted.has(id) || relisted.size >= REMEMBERED_MAX) {
        return false;
      }
      relisted.add(id);
      return true;
    },
  };
}
