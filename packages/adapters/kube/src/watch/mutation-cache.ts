// SPDX-License-Identifier: Apache-2.0
// Objects that this process wrote but its caches have not received yet, so that decisions do not use older versions.
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Cache, Store } from "@patchbay/core/interfaces";
import { parseVersion } from "../objects/object-metadata.ts";

/** Remembers the last written version of each object until the cache is as new. */
export interface MutationCache {
  note(written: KubeObject): void;
  /** Whether `cached` is older than the last write of the object. */
  isBehind(cached: KubeObject): boolean;
  /** The last written version if `cached` is older, otherwise `cached`. */
  newest<T extends KubeObject>(cached: T): T;
}

function findUid({ metadata }: KubeObject): string {
  return metadata.uid ?? "";
}

class ObjectMutationCache implements MutationCache {
  readonly #written = new Map<string, KubeObject>();
  readonly #caches: readonly Cache<KubeObject>[];

  constructor(caches: readonly Cache<KubeObject>[]) {
    this.#caches = caches;
    for (const cache of caches) this.#follow(cache);
  }

  /** Forgets what a cache has received or deleted. */
  #follow(cache: Cache<KubeObject>): void {
    cache.onChange((change) => {
      if (change.kind === "deleted") this.#written.delete(findUid(change.previous));
      else this.isBehind(change.current);
    });
  }

  note(written: KubeObject): void {
    this.#written.set(findUid(written), written);
    // The watch may have been faster than the response. Without another change, the write would be remembered
    // forever.
    for (const cache of this.#caches) {
      const cached = cache.find(written.metadata);
      if (cached !== undefined) this.newest(cached);
    }
  }

  isBehind(cached: KubeObject): boolean {
    return this.newest(cached) !== cached;
  }

  newest<T extends KubeObject>(cached: T): T {
    const written = this.#written.get(findUid(cached));
    // An object that this returned earlier proves nothing about the cache.
    if (written === undefined || written === cached) return cached;
    // A uid identifies one kind.
    if (parseVersion(cached) < parseVersion(written)) return written as T;
    this.#written.delete(findUid(cached));
    return cached;
  }
}

/** A restart loses all writes. Deleted objects are forgotten when one of the caches reports it. */
export function createMutationCache(...caches: readonly Cache<KubeObject>[]): MutationCache {
  return new ObjectMutationCache(caches);
}

export interface Known {
  readonly type: ResourceType<KubeObject>;
  readonly cache: Cache<KubeObject>;
}

export type Reader = Pick<Store, "find">;

/**
 * Reads from caches, at least as new as this process's own writes, for decisions that are revalidated. Objects that
 * no cache contains are read from the server, because a cache may be incomplete.
 */
export function createCachedReader(
  store: Reader,
  ownWrites: Pick<MutationCache, "newest">,
  known: readonly Known[],
): Reader {
  return {
    find: async (type, key, options) => {
      const cache = known.find((each) => each.type === type)?.cache;
      const cached = cache?.find(key);
      if (cached === undefined) return store.find(type, key, options);
      // The cache has this type.
      return ownWrites.newest(cached) as NonNullable<typeof type.objectType>;
    },
  };
}
