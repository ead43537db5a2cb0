// SPDX-License-Identifier: Apache-2.0
import type { ContainerRuntime } from "@patchbay/core/interfaces";
import { findPodUid } from "../translate/labels.ts";

export interface Owners {
  retain(uid: string, ids: readonly string[]): void;
  /** Undefined when the runtime no longer knows the id. */
  find(id: string): Promise<string | undefined>;
}

export function createOwners(runtime: ContainerRuntime): Owners {
  const uids = new Map<string, string>();
  const listIds = new Map<string, readonly string[]>();
  return {
    retain: (uid, ids) => {
      for (const id of listIds.get(uid) ?? []) uids.delete(id);
      for (const id of ids) uids.set(id, uid);
      if (ids.length === 0) listIds.delete(uid);
      else listIds.set(uid, ids);
    },
    find: async (id) => {
      const known = uids.get(id);
      if (known !== undefined) return known;
      const found = (await runtime.findContainer(id)) ?? (await runtime.findSandbox(id));
      return found === undefined ? undefined : findPodUid(found.labels);
    },
  };
}
