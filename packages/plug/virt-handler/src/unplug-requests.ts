// SPDX-License-Identifier: Apache-2.0
// Unplug requests to guests. After a restart the guest is asked again, which is harmless.
import type { UnplugRequest } from "@patchbay/core";
import type { Clock } from "@patchbay/core/ports";

/** Unplug requests, by VMI uid and iface. */
export interface UnplugRequests {
  /**
   * Records a request before it is made, because the guest's refusal may arrive before libvirt's reply. `before` is the number of
   * requests that earlier processes made. The returned function undoes the record when the request was not made.
   */
  note(uid: string, iface: string, before: number): () => void;
  /** Records that libvirt reported the last request as failed. Does nothing without a request. */
  noteRefusal(uid: string, iface: string): void;
  find(uid: string, iface: string): UnplugRequest | undefined;
  retain(uid: string, ifaces: readonly string[]): void;
}

interface Requests {
  readonly lastMs: number;
  readonly count: number;
  readonly isRefused: boolean;
}

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
