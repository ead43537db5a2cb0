// SPDX-License-Identifier: Apache-2.0
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Cache, Change, ObjectKey } from "@patchbay/core/interfaces";

/** A {@link Cache} whose objects a test sets. */
export interface FakeCache<T extends KubeObject> extends Cache<T> {
  /** Adds or replaces an object; another uid means that it was recreated. */
  put(object: T): void;
  /** Deletes an object if it exists. */
  take(key: ObjectKey): void;
}

/** Functions that return the values under which an object is found, by name of the index. */
export type FakeIndexes<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

function toStorageKey({ namespace = "", name }: ObjectKey): string {
  return `${namespace}/${name}`;
}

class MemoryCache<T extends KubeObject> implements FakeCache<T> {
  readonly #indexes: FakeIndexes<T>;
  readonly #objects = new Map<string, T>();
  readonly #listeners = new Set<(change: Change<T>) => void>();

  constructor(indexes: FakeIndexes<T>) {
    this.#indexes = indexes;
  }

  put(object: T): void {
    const previous = this.find(object.metadata);
    if (previous !== undefined && previous.metadata.uid !== object.metadata.uid) {
      this.take(object.metadata);
      this.put(object);
      return;
    }
    this.#objects.set(toStorageKey(object.metadata), object);
    this.#notify(
      previous === undefined
        ? { kind: "added", current: object }
        : { kind: "updated", previous, current: object },
    );
  }

  take(key: ObjectKey): void {
    const previous = this.find(key);
    if (previous === undefined) return;
    this.#objects.delete(toStorageKey(key));
    this.#notify({ kind: "deleted", previous });
  }

  find(key: ObjectKey): T | undefined {
    return this.#objects.get(toStorageKey(key));
  }

  list(): readonly T[] {
    const storageKeys = [...this.#objects.keys()].sort();
    return storageKeys.flatMap((storageKey) => this.#objects.get(storageKey) ?? []);
  }

  listBy(index: string, value: string): readonly T[] {
    const listValues = this.#indexes[index] ?? (() => []);
    return this.list().filter((object) => listValues(object).includes(value));
  }

  onChange(listener: (change: Change<T>) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  synced(): Promise<void> {
    return Promise.resolve();
  }

  #notify(change: Change<T>): void {
    for (const listener of this.#listeners) listener(change);
  }
}

/** Creates an empty, synchronized cache. */
export function createFakeCache<T extends KubeObject>(indexes: FakeIndexes<T> = {}): FakeCache<T> {
  return new MemoryCache(indexes);
}
