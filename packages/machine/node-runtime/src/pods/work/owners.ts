// SPDX-License-Identifier: Apache-2.0
// Which pod is a sandbox or container of? The runtime tells of changes by ids only.
import type { ContainerRuntime } from "@patchbay/core/ports";
import { podUidOf } from "../../translate/labels.ts";

/** What is known of ids. */
export interface Owners {
  /** These are all the ids of that pod. */
  keep(uid: string, ids: readonly string[]): void;
  /** uid of the pod; undefined: nobody knows it any more. */
  find(id: string): Promise<string | undefined>;
}

/** Asks the runtime where an id has not been seen. */
export function createOwners(runtime: ContainerRuntime): Owners {
  const uids = new Map<string, string>();
  const idsOf = new Map<string, readonly string[]>();
  return {
    keep: (uid, ids) => {
      for (const id of idsOf.get(uid) ?? []) uids.delete(id);
      for (const id of ids) uids.set(id, uid);
      if (ids.length === 0) idsOf.delete(uid);
      else idsOf.set(uid, ids);
    },
    find: async (id) => {
      const known = uids.get(id);
      if (known !== undefined) return known;
      const found = (await runtime.findContainer(id)) ?? (await runtime.findSandbox(id));
      return found === undefined ? undefined : podUidOf(found.labels);
    },
  };
}
