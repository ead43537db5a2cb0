// SPDX-License-Identifier: Apache-2.0
import type { Clock } from "@patchbay/base";

/** Time limits for deferred status writes, by UID of the object. The limits are not persisted, so a restart of the process resets them. */
export interface Deferrals {
  /** Returns for how many more milliseconds a write may be deferred. The first call starts the time limit. */
  remainingMs(uid: string): number;
  end(uid: string): void;
}

export function createDeferrals(clock: Clock, maxMs: number): Deferrals {
  const deadlinesMs = new Map<string, number>();
  return {
    remainingMs: (uid) => {
      const nowMs = clock.monotonicMs();
      const deadlineMs = deadlinesMs.get(uid) ?? nowMs + maxMs;
      deadlinesMs.set(uid, deadlineMs);
      return Math.max(0, deadlineMs - nowMs);
    },
    end: (uid) => {
      deadlinesMs.delete(uid);
    },
  };
}
