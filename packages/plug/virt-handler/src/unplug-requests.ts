// SPDX-License-Identifier: Apache-2.0
// When guests were asked to let go of a device. Lost at a restart, after which they are asked again: that is harmless.
import type { UnplugRequest } from "@patchbay/core";
import type { Clock } from "@patchbay/core/ports";

/** Requests to guests, by VMI uid and iface. */
export interface UnplugRequests {
  /**
   * One more request, noted before it is made: the refusal may come before its answer. `before` is how often it was asked
   * by a process that is gone. Takes it back when called: it was not made after all.
   */
  note(uid: string, iface: string, before: number): () => void;
  /** The last request has failed, as libvirt says; nothing where there was none. */
  noteRefusal(uid: string, iface: string): void;
  /** What the guest was asked; undefined when it was not. */
  find(uid: string, iface: string): UnplugRequest | undefined;
  /** Forgets the requests of a VMI for all ifaces but these. */
  retain(uid: string, ifaces: readonly string[]): void;
}

interface Requests {
  readonly lastMs: number;
  readonly count: number;
  readonly isRefused: boolean;
}

/** No requests yet; the clock tells how long ago each is. */
export function createUnplugRequests(clock: Clock): UnplugRequests {
  const byVmi = new Map<string, ReadonlyMap<string, Requests>>();
  const find = (uid: string, iface: string): Requests | undefined => byVmi.get(uid)?.get(iface);
  const put = (uid: string, iface: string, requests: Requests | undefined): void => {
    const all = new Map(byVmi.get(uid));
    if (requests === undefined) all.delete(iface);
    else all.set(iface, requests);
    byVmi.set(uid, all);
  };
  return {
    note(uid, iface, before): () => void {
      const last = find(uid, iface);
      const count = (last?.count ?? before) + 1;
      put(uid, iface, { lastMs: clock.monotonicMs(), count, isRefused: false });
      return () => {
        put(uid, iface, last);
      };
    },
    noteRefusal(uid, iface): void {
      const requests = find(uid, iface);
      if (requests !== undefined) put(uid, iface, { ...requests, isRefused: true });
    },
    find(uid, iface): UnplugRequest | undefined {
      const requests = find(uid, iface);
      if (requests === undefined) return undefined;
      const { lastMs, count, isRefused } = requests;
      return { count, agoMs: clock.monotonicMs() - lastMs, isRefused };
    },
    retain(uid, ifaces): void {
      const kept = [...(byVmi.get(uid) ?? [])].filter(([iface]) => ifaces.includes(iface));
      if (kept.length > 0) byVmi.set(uid, new Map(kept));
      else byVmi.delete(uid);
    },
  };
}
