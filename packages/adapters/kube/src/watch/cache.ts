// SPDX-License-Identifier: Apache-2.0
// Local copy of watched objects, with indexes by values of the objects.
import type { KubeObject } from "@patchbay/api/kubernetes";
import { KeyedMutex, messageOf, type Clock, type Logger } from "@patchbay/base";
import type { Cache, Change, ObjectKey } from "@patchbay/core/interfaces";
import type { Observable } from "rxjs";
import { keyOf, printKey } from "../objects/object-metadata.ts";
import type { Reflection } from "./reflector.ts";

type IndexFunctions<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

export class ObjectIndex<T> {
  readonly #functions: IndexFunctions<T>;
  readonly #objects = new Map<string, T>();
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

interface ObjectSource<T extends KubeObject> {
  /** Creates a cache of the identities of all objects in the namespace. The cache sends no request before it is started. */
  readonly openCache: (namespace: string) => StartableCache<KubeObject>;
  readonly readObject: (key: ObjectKey) => Promise<T | undefined>;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface WatchedObject<T extends KubeObject> {
  readonly key: ObjectKey;
  readonly users: Set<string>;
  readonly known: PromiseWithResolvers<undefined>;
  version: string | undefined;
  object: T | undefined;
  isReading: boolean;
}

interface WatchedNamespace<T extends KubeObject> {
  readonly cache: StartableCache<KubeObject>;
  readonly stop: AbortController;
  readonly objects: Map<string, WatchedObject<T>>;
  isSynced: boolean;
  nextRereadMs: number;
}

const MISSING = "";
const READ_RETRY_MS = 2000;
/** A namespace's reads of changed objects take at most a fifth of the time, so that objects that change in a loop cost little. */
const REREAD_PAUSE_FACTOR = 4;
const REREAD_PAUSE_MAX_MS = 2000;

/** Watches single objects while a user needs them, with one watch of identities and one read at a time for each namespace. */
export class ObjectWatches<T extends KubeObject> {
  readonly #source: ObjectSource<T>;
  readonly #signal: AbortSignal;
  readonly #namespaces = new Map<string, WatchedNamespace<T>>();
  readonly #keysByUser = new Map<string, ReadonlyMap<string, ObjectKey>>();
  readonly #reads = new KeyedMutex();
  readonly #listeners = new Set<(user: string) => void>();
  readonly #syncListeners = new Set<(user: string) => void>();

  constructor(source: ObjectSource<T>, signal: AbortSignal) {
    this.#source = source;
    this.#signal = signal;
  }

  setUsed(user: string, keys: readonly ObjectKey[]): void {
    const used = new Map(keys.map((key) => [printKey(key), key]));
    const previous = this.#keysByUser.get(user) ?? new Map<string, ObjectKey>();
    for (const key of used.values()) this.#use(user, key);
    for (const [text, key] of previous) if (!used.has(text)) this.#release(user, key);
    if (used.size === 0) this.#keysByUser.delete(user);
    else this.#keysByUser.set(user, used);
  }

  /** Returns the existing objects that the user needs; undefined until each of them has been read. */
  list(user: string): readonly T[] | undefined {
    const keys = [...(this.#keysByUser.get(user)?.values() ?? [])];
    const watched = keys.flatMap((key) => this.#find(key) ?? []);
    if (watched.some(({ version }) => version === undefined)) return undefined;
    return watched.flatMap(({ object }) => object ?? []);
  }

  find(key: ObjectKey): T | undefined {
    return this.#find(key)?.object;
  }

  /** Resolves when the object has been read or is known to be missing. Returns undefined if no user needs the object. */
  waitUntilKnown(key: ObjectKey): Promise<undefined> | undefined {
    return this.#find(key)?.known.promise;
  }

  /** Calls `listener` with each user of an object that has been read for the first time, even if the object does not exist. */
  onSynced(listener: (user: string) => void): void {
    this.#syncListeners.add(listener);
  }

  onChange(listener: (user: string) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  #find({ namespace = "", name }: ObjectKey): WatchedObject<T> | undefined {
    return this.#namespaces.get(namespace)?.objects.get(name);
  }

  #use(user: string, key: ObjectKey): void {
    const namespace = this.#openNamespace(key.namespace ?? "");
    const watched: WatchedObject<T> = namespace.objects.get(key.name) ?? {
      key,
      users: new Set(),
      known: Promise.withResolvers<undefined>(),
      version: undefined,
      object: undefined,
      isReading: false,
    };
    namespace.objects.set(key.name, watched);
    watched.users.add(user);
    void this.#refresh(namespace, watched);
  }

  #openNamespace(name: string): WatchedNamespace<T> {
    const open = this.#namespaces.get(name);
    if (open !== undefined) return open;
    const cache = this.#source.openCache(name);
    const stop = new AbortController();
    const opened: WatchedNamespace<T> = {
      cache,
      stop,
      objects: new Map(),
      isSynced: false,
      nextRereadMs: 0,
    };
    this.#namespaces.set(name, opened);
    cache.onChange((change) => {
      const { metadata } = change.kind === "deleted" ? change.previous : change.current;
      const watched = opened.objects.get(metadata.name);
      if (watched !== undefined) void this.#refresh(opened, watched);
    });
    void cache.synced().then(() => {
      opened.isSynced = true;
      for (const watched of opened.objects.values()) void this.#refresh(opened, watched);
    });
    cache.start(AbortSignal.any([stop.signal, this.#signal]));
    return opened;
  }

  #release(user: string, key: ObjectKey): void {
    const { namespace = "", name } = key;
    const opened = this.#namespaces.get(namespace);
    const watched = opened?.objects.get(name);
    if (opened === undefined || watched === undefined) return;
    watched.users.delete(user);
    if (watched.users.size === 0) opened.objects.delete(name);
    if (opened.objects.size > 0) return;
    opened.stop.abort();
    this.#namespaces.delete(namespace);
  }

  async #refresh(namespace: WatchedNamespace<T>, watched: WatchedObject<T>): Promise<void> {
    if (!namespace.isSynced || watched.isReading) return;
    watched.isReading = true;
    while (watched.users.size > 0 && !this.#signal.aborted) {
      const identity = namespace.cache.find(watched.key);
      const version = identity === undefined ? MISSING : (identity.metadata.resourceVersion ?? "0");
      if (version === watched.version) break;
      const isReread = watched.version !== undefined && version !== MISSING;
      if (isReread) await this.#reread(namespace, watched, version);
      else await this.#read(watched, version);
    }
    watched.isReading = false;
  }

  async #reread(
    namespace: WatchedNamespace<T>,
    watched: WatchedObject<T>,
    version: string,
  ): Promise<void> {
    const { clock } = this.#source;
    const startMs = clock.monotonicMs();
    if (startMs < namespace.nextRereadMs) {
      const waitMs = namespace.nextRereadMs - startMs;
      await clock.sleep(waitMs, this.#signal).catch(() => undefined);
      return;
    }
    await this.#read(watched, version);
    const endMs = clock.monotonicMs();
    const pauseMs = Math.min((endMs - startMs) * REREAD_PAUSE_FACTOR, REREAD_PAUSE_MAX_MS);
    namespace.nextRereadMs = endMs + pauseMs;
  }

  async #read(watched: WatchedObject<T>, version: string): Promise<void> {
    const { readObject, clock, logger } = this.#source;
    const { key } = watched;
    try {
      const read = (): Promise<T | undefined> =>
        version === MISSING ? Promise.resolve(undefined) : readObject(key);
      const object = await this.#reads.runExclusive(key.namespace ?? "", read);
      this.#accept(watched, version, object);
    } catch (error) {
      logger.warn("object not read", { object: printKey(key), reason: messageOf(error) });
      await clock.sleep(READ_RETRY_MS, this.#signal).catch(() => undefined); // An abort ends the loop of the caller.
    }
  }

  #accept(watched: WatchedObject<T>, version: string, object: T | undefined): void {
    const isFirst = watched.version === undefined;
    const hasChanged = watched.object !== undefined || object !== undefined;
    watched.version = version;
    watched.object = object;
    watched.known.resolve(undefined);
    const listeners = [
      ...(hasChanged ? this.#listeners : []),
      ...(isFirst ? this.#syncListeners : []),
    ];
    for (const listener of listeners) for (const user of watched.users) listener(user);
  }
}
