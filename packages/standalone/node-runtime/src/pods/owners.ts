// SPDX-License-Identifier: Apache-2.0
import type { ContainerRuntime } from "@patchbay/core/interfaces";
import { findPodUid } from "../translate/labels.ts";

export interface Owners {
  retain(uid: string, ids: readonly string[]): void;
  /** Returns the uid of the pod that owns the sandbox or container; undefined if the runtime does not know the id. */
  find(id: string): Promise<string | undefined>;
}

export function createPodUidIndex(runtime: ContainerRuntime): Owners {
  const uidById = new Map<string, string>();
  const idsByUid = new Map<string, readonly string[]>();
  return {
    retain: (uid, ids) => {
      for (const id of idsByUid.get(uid) ?? []) uidById.delete(id);
      for (const id of ids) uidById.set(id, uid);
      if (ids.length === 0) idsByUid.delete(uid);
      else idsByUid.set(uid, ids);
    },
    find: async (id) => {
      const knownUid = uidById.get(id);
      if (knownUid !== undefined) return knownUid;
      const status = (await runtime.findContainer(id)) ?? (await runtime.findSandbox(id));
      return status === undefined ? undefined : findPodUid(status.labels);
    },
  };
}
