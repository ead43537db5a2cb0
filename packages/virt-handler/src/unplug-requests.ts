// SPDX-License-Identifier: Apache-2.0
// When guests were asked to let go of a device. Lost at a restart, after which they are asked again: that is harmless.
import type { Clock } from "@patchbay/ports";
import { IfaceMap } from "./iface-map.ts";

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
  const requests = new IfaceMap<{ readonly atMs: number; readonly count: number }>();
  return {
    note(uid, iface, before = 0): void {
      const count = (requests.get(uid, iface)?.count ?? before) + 1;
      requests.set(uid, iface, { atMs: clock.monotonicMs(), count });
    },
    agoMs(uid, iface): number | undefined {
      const last = requests.get(uid, iface);
      return last === undefined ? undefined : clock.monotonicMs() - last.atMs;
    },
    count: (uid, iface) => requests.get(uid, iface)?.count ?? 0,
    retain(uid, ifaces): void {
      requests.retain(uid, ifaces);
    },
  };
}
