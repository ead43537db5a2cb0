// SPDX-License-Identifier: Apache-2.0
// Which steps failed a moment ago and are left alone for now: every event wakes the loop, also that of its own report.
import type { Hindrance } from "@patchbay/core";
import type { Clock } from "@patchbay/ports";
import { IfaceMap } from "./iface-map.ts";

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
  const entries = new IfaceMap<Entry>();
  return {
    hold({ uid, iface, key }, { hindrance, pauseMs }): void {
      entries.set(uid, iface, { key, hindrance, untilMs: clock.monotonicMs() + pauseMs });
    },
    findHeld({ uid, iface, key }): Setback | undefined {
      const entry = entries.get(uid, iface);
      if (entry?.key !== key) return undefined;
      const pauseMs = entry.untilMs - clock.monotonicMs();
      return pauseMs > 0 ? { hindrance: entry.hindrance, pauseMs } : undefined;
    },
    retain(uid, ifaces): void {
      entries.retain(uid, ifaces);
    },
  };
}
