// SPDX-License-Identifier: Apache-2.0
// How long has something been put off? Nothing is put off for ever.
import type { Clock } from "@patchbay/core/ports";

/** What has been put off, by uid. Lost at a restart of the process, after which it begins anew. */
export interface Deferrals {
  /** How much longer it may be put off, milliseconds; the first question begins it. */
  leftMs(uid: string): number;
  /** It is done, or there is nothing to do. */
  end(uid: string): void;
}

/** Puts off for at most so long. */
export function createDeferrals(clock: Clock, longestMs: number): Deferrals {
  const dueMs = new Map<string, number>();
  return {
    leftMs: (uid) => {
      const nowMs = clock.monotonicMs();
      const due = dueMs.get(uid) ?? nowMs + longestMs;
      dueMs.set(uid, due);
      return Math.max(0, due - nowMs);
    },
    end: (uid) => {
      dueMs.delete(uid);
    },
  };
}
