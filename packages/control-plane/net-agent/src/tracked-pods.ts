// SPDX-License-Identifier: Apache-2.0
// Pods with journal rows or recorded failures. After a pod is deleted, only the journal contains its attachments.
import type { Journal } from "@patchbay/cni";
import { messageOf, type Logger } from "@patchbay/base";

/** UIDs of pods with rows or failures, by NAMESPACE/NAME. */
export interface TrackedPods {
  add(key: string, uid: string): void;
  remove(key: string, uid: string): void;
  listUids(key: string): readonly string[];
  keys(): readonly string[];
  /** UIDs of pods whose rows could not be read at startup. */
  readonly unreadable: readonly string[];
}

/** Reads the journal at startup. Afterwards, the callers of `add` and `remove` must keep the list in step with the journal. */
export async function loadTrackedPods(journal: Journal, log: Logger): Promise<TrackedPods> {
  const trackedPods = new Map<string, Set<string>>();
  const add = (key: string, uid: string): void => {
    trackedPods.set(key, (trackedPods.get(key) ?? new Set()).add(uid));
  };
  const unreadable: string[] = [];
  for (const uid of await journal.listPods()) {
    try {
      for (const row of await journal.list(uid)) add(`${row.podNamespace}/${row.podName}`, uid);
    } catch (error) {
      unreadable.push(uid);
      log.error("journal of a pod cannot be read", { uid, reason: messageOf(error) });
    }
  }
  return {
    add,
    remove: (key, uid) => {
      const uids = trackedPods.get(key);
      uids?.delete(uid);
      if (uids?.size === 0) trackedPods.delete(key);
    },
    listUids: (key) => [...(trackedPods.get(key) ?? [])].toSorted(),
    unreadable,
    keys: () => [...trackedPods.keys()].toSorted(),
  };
}
