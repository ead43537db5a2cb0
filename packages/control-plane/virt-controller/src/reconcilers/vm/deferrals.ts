// SPDX-License-Identifier: Apache-2.0
import type { Clock } from "@patchbay/base";

/** Time limits for deferred status writes, by object UID. A process restart resets all limits. */
export interface Deferrals {
  /** Returns for how many milliseconds a write may be deferred. The first call starts the limit. */
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
