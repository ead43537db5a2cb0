// SPDX-License-Identifier: Apache-2.0
// Local copy of watched objects, with indexes by values of the objects.
import type { KubeObject } from "@patchbay/api/kubernetes";
import { messageOf, type Logger } from "@patchbay/base";
import type { Cache, Change, ObjectKey } from "@patchbay/core/interfaces";
import type { Observable } from "rxjs";
import { keyOf, printKey } from "../objects/object-metadata.ts";
import type { Reflection } from "./reflector.ts";

type IndexFunctions<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

export class ObjectIndex<T> {
  readonly #functions: IndexFunctions<T>;
  readonly #objects = new Map<string, T>();
  /** Keys of objects, by index name and value. */
  readonly #postings = new Map<string, Set<string>>();
  /** Sorted keys of the objects. Undefined after a key was added or removed. */
  #sorted: readonly string[] | undefined;

  constructor(functions: IndexFunctions<T>) {
    this.#functions = functions;
  }

  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  keys(): readonly string[] {
    this.#sorted ??= [...this.#objects.keys()].sort();
    return this.#sorted;
  }

  set(key: string, object: T): void {
    this.#removePostings(key);
    if (!this.#objects.has(key)) this.#sorted = undefined;
    this.#objects.set(key, object);
    for (const posting of this.#postingKeys(object)) this.#addPosting(posting, key);
  }

  delete(key: string): void {
    this.#removePostings(key);
    if (this.#objects.delete(key)) this.#sorted = undefined;
  }

  list(): readonly T[] {
    return this.#pick(this.keys());
  }

  listBy(index: string, value: string): readonly T[] {
    if (this.#functions[index] === undefined) throw new RangeError(`there is no index ${index}`);
    const keys = this.#postings.get(postingKey(index, value));
    return keys === undefined ? [] : this.#pick([...keys].sort());
  }

  #pick(keys: readonly string[]): readonly T[] {
    return keys.flatMap((key) => this.#objects.get(key) ?? []);
  }

  #addPosting(posting: string, key: string): void {
    const keys = this.#postings.get(posting) ?? new Set();
    this.#postings.set(posting, keys.add(key));
  }

  #removePostings(key: string): void {
    const object = this.#objects.get(key);
    if (object === undefined) return;
    for (const posting of this.#postingKeys(object)) this.#removePosting(posting, key);
  }

  #removePosting(posting: string, key: string): void {
    const keys = this.#postings.get(posting);
    keys?.delete(key);
    // Stryker disable next-line all: frees memory only
    if (keys?.size === 0) this.#postings.delete(posting);
  }

  #postingKeys(object: T): readonly string[] {
    return Object.entries(this.#functions).flatMap(([index, listValues]) =>
      listValues(object).map((value) => postingKey(index, value)),
    );
  }
}

function postingKey(index: string, value: string): string {
  return JSON.stringify([index, value]);
}

/** Returns the object's versions before and after the change. Returns a single version if the object was added or deleted. */
export function listStates<T extends KubeObject>(change: Change<T>): readonly T[] {
  return [
    ...(change.kind === "added" ? [] : [change.previous]),
    ...(change.kind === "deleted" ? [] : [change.current]),
  ];
}

/** Waits until all caches contain their first lists, or until the signal is aborted. */
export async function waitForCaches(
  caches: readonly Pick<Cache<KubeObject>, "synced">[],
  signal: AbortSignal,
): Promise<void> {
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const onAbort = (): void => {
    resolve(undefined);
  };
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  await Promise.race([Promise.all(caches.map((cache) => cache.synced())), aborted]);
  signal.removeEventListener("abort", onAbort);
}

interface CacheOptions<T extends KubeObject> {
  /** Functions by index name. Each function returns the values under which `listBy` finds an object. */
  readonly indexes?: Readonly<Record<string, (object: T) => readonly string[]>>;
  readonly logger: Logger;
}

/** Cache that stays empty until `start`. */
export interface StartableCache<T extends KubeObject> extends Cache<T> {
  /** Fills and updates the cache until the signal is aborted. Listeners that were added before `start` receive every object. */
  start(signal: AbortSignal): void;
}

/** Retains the previous spec object if the generation is unchanged, so that results that are memoized per spec object stay valid. */
function reuseSpec<T extends KubeObject>(previous: T, current: T): T {
  const { generation } = current.metadata;
  const isSameSpec = generation !== undefined && generation === previous.metadata.generation;
  return isSameSpec && "spec" in previous && "spec" in current
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
      this.#accept(reflection);
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

  #accept(reflection: Reflection<T>): void {
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
    const current = previous === undefined ? object : reuseSpec(previous, object);
    this.#objects.set(key, current);
    this.#notify(
      previous === undefined ? { kind: "added", current } : { kind: "updated", previous, current },
    );
  }

  #remove(key: string): void {
    const previous = this.#objects.get(key);
    if (previous === undefined) return;
    this.#objects.delete(key);
    this.#notify({ kind: "deleted", previous });
  }

  #notify(change: Change<T>): void {
    for (const listener of this.#listeners) {
      try {
        listener(change);
      } catch (error) {
        // The error is only logged, so that the remaining listeners receive the change.
        this.#logger.error("cache listener failed", { reason: messageOf(error), err: error });
      }
    }
  }
}

export function createCache<T extends KubeObject>(
  source: Observable<Reflection<T>>,
  options: CacheOptions<T>,
): StartableCache<T> {
  return new WatchedCache(source, options);
}

/** Fields that select one object by its name. */
export interface NameSelection {
  readonly namespace: string;
  readonly fieldSelector: string;
}

interface WatchedObject<T extends KubeObject> {
  readonly key: ObjectKey;
  readonly cache: StartableCache<T>;
  readonly stop: AbortController;
  readonly users: Set<string>;
  isSynced: boolean;
}

/** Watches single objects by name while a user needs them. Without users, sends no request. */
export class ObjectWatches<T extends KubeObject> {
  readonly #openCache: (selection: NameSelection) => StartableCache<T>;
  readonly #signal: AbortSignal;
  readonly #watched = new Map<string, WatchedObject<T>>();
  readonly #listeners = new Set<(user: string) => void>();
  readonly #syncListeners = new Set<(user: string) => void>();

  /** `openCache` creates a cache, which sends no request before it is started. */
  constructor(openCache: (selection: NameSelection) => StartableCache<T>, signal: AbortSignal) {
    this.#openCache = openCache;
    this.#signal = signal;
  }

  /** Sets the objects that the user needs, in place of earlier ones. */
  setUsed(user: string, keys: readonly ObjectKey[]): void {
    const used = new Map(keys.map((key) => [printKey(key), key]));
    for (const [key, { users, stop }] of this.#watched) {
      if (!used.has(key)) users.delete(user);
      if (users.size > 0) continue;
      stop.abort();
      this.#watched.delete(key);
    }
    for (const [text, key] of used) {
      const watched = this.#watched.get(text) ?? this.#watch(text, key);
      watched.users.add(user);
    }
  }

  /** Returns the existing objects that the user needs; undefined until each of their watches is synchronized. */
  list(user: string): readonly T[] | undefined {
    const used = [...this.#watched.values()].filter(({ users }) => users.has(user));
    if (used.some(({ isSynced }) => !isSynced)) return undefined;
    return used.flatMap(({ key, cache }) => cache.find(key) ?? []);
  }

  /** Returns the cache of a watched object. */
  findCache(key: ObjectKey): StartableCache<T> | undefined {
    return this.#watched.get(printKey(key))?.cache;
  }

  /** Calls `listener` with each user of an object whose watch is synchronized, even if the object does not exist. */
  onSynced(listener: (user: string) => void): void {
    this.#syncListeners.add(listener);
  }

  /** Calls `listener` with each user of an object that has changed. */
  onChange(listener: (user: string) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  #watch(text: string, key: ObjectKey): WatchedObject<T> {
    const stop = new AbortController();
    const { namespace = "", name } = key;
    const cache = this.#openCache({ namespace, fieldSelector: `metadata.name=${name}` });
    const watched = { key, cache, stop, users: new Set<string>(), isSynced: false };
    this.#watched.set(text, watched);
    const notify = (listeners: ReadonlySet<(user: string) => void>): void => {
      for (const user of watched.users) for (const listener of listeners) listener(user);
    };
    cache.onChange(() => {
      notify(this.#listeners);
    });
    void cache.synced().then(() => {
      watched.isSynced = true;
      notify(this.#syncListeners);
    });
    cache.start(AbortSignal.any([stop.signal, this.#signal]));
    return watched;
  }
}
