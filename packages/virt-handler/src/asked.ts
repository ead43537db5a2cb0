// SPDX-License-Identifier: Apache-2.0
// When guests were asked to let go of a device. Lost at a restart, after which they are asked again: that is harmless.
import type { Clock } from "@patchbay/ports";

/** Requests to guests, by VMI uid and iface. */
export interface Asked {
  /** One more request; `before` is how often it was asked by a process that is gone. */
  note(uid: string, iface: string, before?: number): void;
  /** Milliseconds since the last request; undefined when there was none. */
  agoMs(uid: string, iface: string): number | undefined;
  count(uid: string, iface: string): number;
  /** Forgets the requests of a VMI for all ifaces but these. */
  retain(uid: string, ifaces: readonly string[]): void;
}

export function createAsked(clock: Clock): Asked {
  const byVmi = new Map<string, Map<string, { readonly atMs: number; readonly count: number }>>();
  return {
    note(uid, iface, before = 0): void {
      const ofVmi = byVmi.get(uid) ?? new Map<string, { atMs: number; count: number }>();
      byVmi.set(uid, ofVmi);
      const count = (ofVmi.get(iface)?.count ?? before) + 1;
      ofVmi.set(iface, { atMs: clock.monotonicMs(), count });
    },
    agoMs(uid, iface): number | undefined {
      const entry = byVmi.get(uid)?.get(iface);
      return entry === undefined ? undefined : clock.monotonicMs() - entry.atMs;
    },
    count: (uid, iface) => byVmi.get(uid)?.get(iface)?.count ?? 0,
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
