// SPDX-License-Identifier: Apache-2.0
// Watches as a cluster's server may treat them: short, without idle bookmarks, and forgotten after a restart.
import { bucketOf } from "../../kinds/kind.ts";
import type { WatchBehavior } from "../../verbs/watch/watch-behavior.ts";

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
