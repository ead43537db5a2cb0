// SPDX-License-Identifier: Apache-2.0
// Which pods, by key, does the journal hold rows of? A pod that is gone has no other trace.
import type { Journal } from "@patchbay/cni";

/** Uids of pods that have rows, by NAMESPACE/NAME. */
export interface TrackedPods {
  add(key: string, uid: string): void;
  remove(key: string, uid: string): void;
  /** Uids of that key, sorted. */
  uidsOf(key: string): readonly string[];
  /** All keys, sorted. */
  keys(): readonly string[];
}

/** Reads the journal once; afterwards it is told. */
export async function loadTrackedPods(journal: Journal): Promise<TrackedPods> {
  const tracked = new Map<string, Set<string>>();
  const add = (key: string, uid: string): void => {
    tracked.set(key, (tracked.get(key) ?? new Set()).add(uid));
  };
  for (const uid of await journal.listPods()) {
    for (const row of await journal.list(uid)) add(`${row.podNamespace}/${row.podName}`, uid);
  }
  return {
    add,
    remove: (key, uid) => {
      const uids = tracked.get(key);
      uids?.delete(uid);
      if (uids?.size === 0) tracked.delete(key);
    },
    uidsOf: (key) => [...(tracked.get(key) ?? [])].toSorted(),
    keys: () => [...tracked.keys()].toSorted(),
  };
}
