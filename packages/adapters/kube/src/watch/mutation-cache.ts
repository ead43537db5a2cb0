// SPDX-License-Identifier: Apache-2.0
// Stores written objects until the caches contain the same versions, so that no decision uses an older version.
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Cache, Store } from "@patchbay/core/interfaces";
import { parseVersion } from "../objects/object-metadata.ts";

/** Stores the last written version of each object until the watch delivers the version to the cache. */
export interface MutationCache {
  note(written: KubeObject): void;
  /** Checks whether `cached` is older than this process's last write of the object. */
  isBehind(cached: KubeObject): boolean;
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

  /** Discards a written version when the cache receives this version, a newer version, or the deletion of the object. */
  #follow(cache: Cache<KubeObject>): void {
    cache.onChange((change) => {
      if (change.kind === "deleted") this.#writtenByUid.delete(findUid(change.previous));
      else this.isBehind(change.current);
    });
  }

  note(written: KubeObject): void {
    this.#writtenByUid.set(findUid(written), written);
    // Discards the written version if a cache has already caught up, because there might be no later change to trigger the discard.
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
    // The caller may pass a written version that this method returned earlier.
    if (written === undefined || written === cached) return cached;
    // Both objects have the same UID, so both have the same kind.
    if (parseVersion(cached) < parseVersion(written)) return written as T;
    this.#writtenByUid.delete(findUid(cached));
    return cached;
  }
}

/** Creates an empty mutation cache, which discards a written version as soon as one of `caches` contains it or a newer version. */
export function createMutationCache(...caches: readonly Cache<KubeObject>[]): MutationCache {
  return new ObjectMutationCache(caches);
}

export interface CachedKind {
  readonly type: ResourceType<KubeObject>;
  readonly cache: Cache<KubeObject>;
}

export type Reader = Pick<Store, "find">;

/**
 * Creates a reader that prefers the caches, but never returns a version older than this process's own write. Reads an
 * object from the server if no cache contains the object.
 */
export function createCachedReader(
  store: Reader,
  mutationCache: Pick<MutationCache, "newest">,
  cachedKinds: readonly CachedKind[],
): Reader {
  return {
    find: async (type, key, options) => {
      const cache = cachedKinds.find((kind) => kind.type === type)?.cache;
      const cached = cache?.find(key);
      if (cached === undefined) return store.find(type, key, options);
      return mutationCache.newest(cached) as NonNullable<typeof type.objectType>;
    },
  };
}
