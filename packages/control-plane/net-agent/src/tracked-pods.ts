// SPDX-License-Identifier: Apache-2.0
// Pods that have rows in the journal, which is the only record of a deleted pod.
import type { Journal } from "@patchbay/cni";
import { messageOf, type Logger } from "@patchbay/base";

/** Uids of pods with rows or failures, by NAMESPACE/NAME. */
export interface TrackedPods {
  add(key: string, uid: string): void;
  remove(key: string, uid: string): void;
  listUids(key: string): readonly string[];
  keys(): readonly string[];
  /** Uids of pods whose rows could not be read at the start. */
  readonly unreadable: readonly string[];
}

/** Reads the journal once; callers add later changes. An unreadable pod does not affect other pods. */
export async function loadTrackedPods(journal: Journal, log: Logger): Promise<TrackedPods> {
  const tracked = new Map<string, Set<string>>();
  const add = (key: string, uid: string): void => {
    tracked.set(key, (tracked.get(key) ?? new Set()).add(uid));
  };
  const unreadable: string[] = [];
  for (const uid of await journal.listPods()) {
    try {
      for (const row of await journal.list(uid)) add(`${row.podNamespace}/${row.podName}`, uid);
    } catch (error) {
      unreadable.push(uid);
      // A person must fix this. While the pod exists, each of its passes reports it too.
      log.error("journal of a pod cannot be read", { uid, reason: messageOf(error) });
    }
  }
  return {
    add,
    remove: (key, uid) => {
      const uids = tracked.get(key);
      uids?.delete(uid);
      if (uids?.size === 0) tracked.delete(key);
    },
    listUids: (key) => [...(tracked.get(key) ?? [])].toSorted(),
    unreadable,
    keys: () => [...tracked.keys()].toSorted(),
  };
}
