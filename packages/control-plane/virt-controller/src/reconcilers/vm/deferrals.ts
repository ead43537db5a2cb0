// SPDX-License-Identifier: Apache-2.0
// Limits how long a write can be deferred.
import type { Clock } from "@patchbay/base";

/** Deferred writes, by uid. They are not persisted: after a restart their maximum time begins again. */
export interface Deferrals {
  /** Returns for how many more milliseconds the write may be deferred. The first call starts the time. */
  remainingMs(uid: string): number;
  end(uid: string): void;
}

export function createDeferrals(clock: Clock, maxMs: number): Deferrals {
  const dueMs = new Map<string, number>();
  return {
    remainingMs: (uid) => {
      const nowMs = clock.monotonicMs();
      const due = dueMs.get(uid) ?? nowMs + maxMs;
      dueMs.set(uid, due);
      return Math.max(0, due - nowMs);
    },
    end: (uid) => {
      dueMs.delete(uid);
    },
  };
}
