// SPDX-License-Identifier: Apache-2.0
// When guests were asked to let go of a device. Lost at a restart, after which they are asked again: that is harmless.
import type { Clock } from "@patchbay/ports";

/** Requests to guests, by VMI uid and iface. */
export interface UnplugRequests {
  /** One more request; `before` is how often it was asked by a process that is gone. */
  note(uid: string, iface: string, before: number): void;
  /** Milliseconds since the last request; undefined when there was none. */
  agoMs(uid: string, iface: string): number | undefined;
  /** How often the guest was asked, 0 when it was not. */
  count(uid: string, iface: string): number;
  /** Forgets the requests of a VMI for all ifaces but these. */
  retain(uid: string, ifaces: readonly string[]): void;
}

interface Requests {
  readonly lastMs: number;
  readonly count: number;
}

/** No requests yet; the clock tells how long ago each is. */
export function createUnplugRequests(clock: Clock): UnplugRequests {
  const byVmi = new Map<string, ReadonlyMap<string, Requests>>();
  const find = (uid: string, iface: string): Requests | undefined => byVmi.get(uid)?.get(iface);
  return {
    note(uid, iface, before): void {
      const count = (find(uid, iface)?.count ?? before) + 1;
      const requests = { lastMs: clock.monotonicMs(), count };
      byVmi.set(uid, new Map([...(byVmi.get(uid) ?? []), [iface, requests]]));
    },
    agoMs(uid, iface): number | undefined {
      const last = find(uid, iface);
      return last === undefined ? undefined : clock.monotonicMs() - last.lastMs;
    },
    count: (uid, iface) => find(uid, iface)?.count ?? 0,
    retain(uid, ifaces): void {
      const kept = [...(byVmi.get(uid) ?? [])].filter(([iface]) => ifaces.includes(iface));
      if (kept.length > 0) byVmi.set(uid, new Map(kept));
      else byVmi.delete(uid);
    },
  };
}
