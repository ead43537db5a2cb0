// SPDX-License-Identifier: Apache-2.0
// Objects that this process wrote but its caches have not received yet, so that decisions do not use older versions.
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Cache, Store } from "@patchbay/core/interfaces";
import { parseVersion } from "../objects/object-metadata.ts";

/** Remembers the last written version of each object until the cache is as new. */
export interface MutationCache {
  note(written: KubeObject): void;
  /** Checks whether `cached` is older than the last write of the object. */
  isBehind(cached: KubeObject): boolean;
  /** Returns the last written version if `cached` is older, otherwise `cached`. */
  newest<T extends KubeObject>(cached: T): T;
}

function findUid({ metadata }: KubeObject): string {
  return metadata.uid ?? "";
}

class ObjectMutationCache implements MutationCache {
  readonly #writtenByUid = new Map<string, KubeObject>();
  readonly #caches: readonly Cache<KubeObject>[];

  constructor(caches: readonly Cache<KubeObject>[]) {
    this.#caches = caches;
    for (const cache of caches) this.#follow(cache);
  }

  /** Forgets objects that a cache has received or deleted. */
  #follow(cache: Cache<KubeObject>): void {
    cache.onChange((change) => {
      if (change.kind === "deleted") this.#writtenByUid.delete(findUid(change.previous));
      else this.isBehind(change.current);
    });
  }

  note(written: KubeObject): void {
    this.#writtenByUid.set(findUid(written), written);
    // Forgets the write if the watch was faster than the response, because no other change may follow.
    for (const cache of this.#caches) {
      const cached = cache.find(written.metadata);
      if (cached !== undefined) this.newest(cached);
    }
  }

  isBehind(cached: KubeObject): boolean {
    return this.newest(cached) !== cached;
  }

  newest<T extends KubeObject>(cached: T): T {
    const written = this.#writtenByUid.get(findUid(cached));
    // A returned written version says nothing about the cache.
    if (written === undefined || written === cached) return cached;
    // Both have the same kind, because they have the same uid.
    if (parseVersion(cached) < parseVersion(written)) return written as T;
    this.#writtenByUid.delete(findUid(cached));
    return cached;
  }
}

/** Creates an empty cache of writes. Deleted objects are forgotten when one of `caches` reports the deletion. */
export function createMutationCache(...caches: readonly Cache<KubeObject>[]): MutationCache {
  return new ObjectMutationCache(caches);
}

export interface CachedKind {
  readonly type: ResourceType<KubeObject>;
  readonly cache: Cache<KubeObject>;
}

export type Reader = Pick<Store, "find">;

/**
 * Creates a reader of caches that returns no object older than this process's own writes. An object may still be stale.
 * Objects that no cache contains are read from the server, because a cache may be incomplete.
 */
export function createCachedReader(
  store: Reader,
  mutationCache: Pick<MutationCache, "newest">,
  known: readonly CachedKind[],
): Reader {
  return {
    find: async (type, key, options) => {
      const cache = known.find((each) => each.type === type)?.cache;
      const cached = cache?.find(key);
      if (cached === undefined) return store.find(type, key, options);
      return mutationCache.newest(cached) as NonNullable<typeof type.objectType>;
    },
  };
}
