// SPDX-License-Identifier: Apache-2.0
// What this process itself wrote and a cache has not heard of yet, so that no decision rests on an older fact.
import type { KubeObject } from "@patchbay/api";
import type { Cache } from "@patchbay/core/ports";
import { versionOf } from "../objects/resource-version.ts";

/** Remembers each object as this process wrote it last, until the cache is as new. */
export interface OwnWrites {
  /** Takes what the server answered to a write. */
  note(written: KubeObject): void;
  /** Whether `cached` is older than the last write of it; once it is not, the write is forgotten. */
  isBehind(cached: KubeObject): boolean;
  /** The object as it was written last, where `cached` is older; else `cached` itself. */
  newest<T extends KubeObject>(cached: T): T;
}

function uidOf({ metadata }: KubeObject): string {
  return metadata.uid ?? "";
}

class RememberedWrites implements OwnWrites {
  readonly #written = new Map<string, KubeObject>();
  readonly #caches: readonly Cache<KubeObject>[];

  constructor(caches: readonly Cache<KubeObject>[]) {
    this.#caches = caches;
    for (const cache of caches) this.#follow(cache);
  }

  /** What a cache has heard of need not be remembered, nor what is gone. */
  #follow(cache: Cache<KubeObject>): void {
    cache.onChange((change) => {
      if (change.kind === "deleted") this.#written.delete(uidOf(change.previous));
      else this.isBehind(change.current);
    });
  }

  note(written: KubeObject): void {
    this.#written.set(uidOf(written), written);
    // The watch may have been faster than the answer, and nothing may ever change again: it would be kept for ever.
    for (const cache of this.#caches) {
      const cached = cache.find(written.metadata);
      if (cached !== undefined) this.newest(cached);
    }
  }

  isBehind(cached: KubeObject): boolean {
    return this.newest(cached) !== cached;
  }

  newest<T extends KubeObject>(cached: T): T {
    const written = this.#written.get(uidOf(cached));
    // What was answered here before says nothing of the cache.
    if (written === undefined || written === cached) return cached;
    // Of one uid there is one kind.
    if (versionOf(cached) < versionOf(written)) return written as T;
    this.#written.delete(uidOf(cached));
    return cached;
  }
}

/** Remembers nothing at first, and nothing over a restart; what is gone is forgotten when one of the caches says so. */
export function createOwnWrites(...caches: readonly Cache<KubeObject>[]): OwnWrites {
  return new RememberedWrites(caches);
}
