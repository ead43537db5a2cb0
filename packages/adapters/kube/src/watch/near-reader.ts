// SPDX-License-Identifier: Apache-2.0
// What is known of an object without asking the server? For decisions that are asked again where they do not hold.
import type { KubeObject, ResourceType } from "@patchbay/api";
import type { Cache, Store } from "@patchbay/core/ports";
import type { OwnWrites } from "./own-writes.ts";

/** One kind and its cache. */
export interface Known {
  readonly type: ResourceType<KubeObject>;
  readonly cache: Cache<KubeObject>;
}

/** Reads single objects. */
export type Reader = Pick<Store, "find">;

/**
 * Reads from caches, as new as this process's own writes. That something is there is believed; whether what no cache has
 * is there, the server is asked: the cache may not be filled yet, or not have heard of it.
 */
export function createNearReader(
  store: Reader,
  ownWrites: Pick<OwnWrites, "newest">,
  known: readonly Known[],
): Reader {
  return {
    find: async (type, key, options) => {
      const cache = known.find((each) => each.type === type)?.cache;
      const cached = cache?.find(key);
      if (cached === undefined) return store.find(type, key, options);
      // The cache is of that type.
      return ownWrites.newest(cached) as NonNullable<typeof type.objectType>;
    },
  };
}
