// SPDX-License-Identifier: Apache-2.0
// Which objects are there, as far as a watch has told? A local copy with indexes.
import type { KubeObject } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import type { Cache, Change, Logger, ObjectKey } from "@patchbay/core/ports";
import type { Observable } from "rxjs";
import { ObjectIndex } from "./object-index.ts";
import type { Reflection } from "./reflector.ts";
import { keyOf, printKey } from "../objects/resource-path.ts";

/** By what else than its name an object is found, and where faults are told. */
export interface CacheOptions<T extends KubeObject> {
  /** Index functions by name: the values under which an object is found by `listBy`. */
  readonly indexes?: Readonly<Record<string, (object: T) => readonly string[]>>;
  readonly logger: Logger;
}

/** A cache that is not fed before it is started. */
export interface StartableCache<T extends KubeObject> extends Cache<T> {
  /** Feeds the cache until `signal` is aborted; listeners that came before see every object. */
  start(signal: AbortSignal): void;
}

/**
 * A specification that has not changed stays the same object, so that what was found out about it is still known of it.
 * Source: Kubernetes API conventions, "metadata.generation"
 */
function withKeptSpec<T extends KubeObject>(previous: T, current: T): T {
  const { generation } = current.metadata;
  const isSame = generation !== undefined && generation === previous.metadata.generation;
  return isSame && "spec" in previous && "spec" in current
    ? { ...current, spec: previous.spec }
    : current;
}

class WatchedCache<T extends KubeObject> implements StartableCache<T> {
  readonly #source: Observable<Reflection<T>>;
  readonly #logger: Logger;
  readonly #objects: ObjectIndex<T>;
  readonly #listeners = new Set<(change: Change<T>) => void>();
  readonly #synced = Promise.withResolvers<undefined>();

  constructor(source: Observable<Reflection<T>>, options: CacheOptions<T>) {
    this.#source = source;
    this.#logger = options.logger;
    this.#objects = new ObjectIndex(options.indexes ?? {});
  }

  start(signal: AbortSignal): void {
    if (signal.aborted) return;
    const subscription = this.#source.subscribe((reflection) => {
      this.#take(reflection);
    });
    signal.addEventListener(
      "abort",
      () => {
        subscription.unsubscribe();
      },
      { once: true },
    );
  }

  find(key: ObjectKey): T | undefined {
    return this.#objects.get(printKey(key));
  }

  list(): readonly T[] {
    return this.#objects.list();
  }

  listBy(index: string, value: string): readonly T[] {
    return this.#objects.listBy(index, value);
  }

  onChange(listener: (change: Change<T>) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  async synced(): Promise<void> {
    await this.#synced.promise;
  }

  #take(reflection: Reflection<T>): void {
    if (reflection.kind === "applied") this.#apply(reflection.object);
    else if (reflection.kind === "removed") this.#remove(printKey(keyOf(reflection.object)));
    else this.#replace(reflection.objects);
  }

  #replace(objects: readonly T[]): void {
    const listed = new Set(objects.map((object) => printKey(keyOf(object))));
    for (const key of this.#objects.keys()) {
      if (!listed.has(key)) this.#remove(key);
    }
    for (const object of objects) this.#apply(object);
    this.#synced.resolve(undefined);
  }

  #apply(object: T): void {
    const key = printKey(keyOf(object));
    const previous = this.#objects.get(key);
    const { uid, resourceVersion } = object.metadata;
    if (previous !== undefined && previous.metadata.uid !== uid) {
      this.#remove(key);
      this.#apply(object);
      return;
    }
    if (previous !== undefined && previous.metadata.resourceVersion === resourceVersion) return;
    const current = previous === undefined ? object : withKeptSpec(previous, object);
    this.#objects.set(key, current);
    this.#tell(
      previous === undefined ? { kind: "added", current } : { kind: "updated", previous, current },
    );
  }

  #remove(key: string): void {
    const previous = this.#objects.get(key);
    if (previous === undefined) return;
    this.#objects.delete(key);
    this.#tell({ kind: "deleted", previous });
  }

  #tell(change: Change<T>): void {
    for (const listener of this.#listeners) {
      try {
        listener(change);
      } catch (error) {
        // One listener's fault must not keep the change from the others.
        this.#logger.error("cache listener failed", { reason: messageOf(error), err: error });
      }
    }
  }
}

/** A cache of what `source` tells; it is empty until it is started. */
export function createCache<T extends KubeObject>(
  source: Observable<Reflection<T>>,
  options: CacheOptions<T>,
): StartableCache<T> {
  return new WatchedCache(source, options);
}
