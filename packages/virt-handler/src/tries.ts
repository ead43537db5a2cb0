// SPDX-License-Identifier: Apache-2.0
// Which steps failed a moment ago and are left alone for now: every event wakes the loop, also that of its own report.
import type { Hindrance } from "@patchbay/core";
import type { Clock } from "@patchbay/ports";

/** A step on an iface; `key` is the same for the same step under the same circumstances. */
export interface Try {
  readonly uid: string;
  readonly iface: string;
  readonly key: string;
}

/** What came of a step, and how long it is left alone. */
export interface Setback {
  readonly hindrance: Hindrance;
  readonly pauseMs: number;
}

/** Steps that failed, by VMI uid and iface. Lost at a restart, after which all are tried at once. */
export interface Tries {
  /** Leaves the step alone for the pause. */
  hold(step: Try, setback: Setback): void;
  /** What came of that very step, while it is left alone. */
  findHeld(step: Try): Setback | undefined;
  /** Forgets the steps of a VMI on all ifaces but these. */
  retain(uid: string, ifaces: readonly string[]): void;
}

interface Entry {
  readonly key: string;
  readonly hindrance: Hindrance;
  readonly untilMs: number;
}

export function createTries(clock: Clock): Tries {
  const byVmi = new Map<string, Map<string, Entry>>();
  return {
    hold({ uid, iface, key }, { hindrance, pauseMs }): void {
      const ofVmi = byVmi.get(uid) ?? new Map<string, Entry>();
      byVmi.set(uid, ofVmi);
      ofVmi.set(iface, { key, hindrance, untilMs: clock.monotonicMs() + pauseMs });
    },
    findHeld({ uid, iface, key }): Setback | undefined {
      const entry = byVmi.get(uid)?.get(iface);
      if (entry?.key !== key) return undefined;
      const pauseMs = entry.untilMs - clock.monotonicMs();
      return pauseMs > 0 ? { hindrance: entry.hindrance, pauseMs } : undefined;
    },
    retain(uid, ifaces): void {
      const ofVmi = byVmi.get(uid);
      if (ofVmi === undefined) return;
      for (const iface of [...ofVmi.keys()]) {
        if (!ifaces.includes(iface)) ofVmi.delete(iface);
      }
      if (ofVmi.size === 0) byVmi.delete(uid);
    },
  };
}
