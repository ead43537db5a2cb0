// SPDX-License-Identifier: Apache-2.0
// Joins two watches into one cache, because label selectors have no OR.
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Cache, Change, ObjectKey } from "@patchbay/core/interfaces";
import type { Clock } from "@patchbay/base";
import { keyOf, printKey, parseVersion } from "../objects/object-metadata.ts";
import { ObjectIndex } from "./cache.ts";

/** Delay before an object that left the second cache is removed, in milliseconds. A relabeled object may enter the first cache by then. */
const REMOVAL_DELAY_MS = 5_000;

class JoinedCache<T extends KubeObject> implements Cache<T> {
  readonly #caches: readonly [Cache<T>, Cache<T>];
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #objects = new ObjectIndex<T>({});
  readonly #listeners = new Set<(change: Change<T>) => void>();

  constructor(caches: readonly [Cache<T>, Cache<T>], clock: Clock, signal: AbortSignal) {
    this.#caches = caches;
    this.#clock = clock;
    this.#signal = signal;
    const [first, second] = caches;
    first.onChange((change) => {
      this.#update(keyOf(changedObject(change)), "remove");
    });
    second.onChange((change) => {
      this.#update(keyOf(changedObject(change)), "removeLater");
    });
  }

  onChange(listener: (change: Change<T>) => void): () => void {
    this.#listeners.add(listener);
    const unsubscribe = (): void => {
      this.#listeners.delete(listener);
    };
    return unsubscribe;
  }

  list(): readonly T[] {
    return this.#objects.list();
  }

  find(key: ObjectKey): T | undefined {
    return this.#objects.get(printKey(key));
  }

  listBy(index: string, value: string): readonly T[] {
    const matches = this.#caches.flatMap((cache) => cache.listBy(index, value));
    const keys = [...new Set(matches.map((object) => printKey(keyOf(object))))].sort();
    return keys.flatMap((key) => this.#objects.get(key) ?? []);
  }

  async synced(): Promise<void> {
    await Promise.all(this.#caches.map((cache) => cache.synced()));
  }

  #newest(key: ObjectKey): T | undefined {
    const cachedVersions = this.#caches.flatMap((cache) => cache.find(key) ?? []);
    return cachedVersions.reduce<T | undefined>(
      (newest, candidate) =>
        newest === undefined || parseVersion(newest) < parseVersion(candidate) ? candidate : newest,
      undefined,
    );
  }

  #update(key: ObjectKey, ifMissing: "remove" | "removeLater"): void {
    const name = printKey(key);
    const current = this.#newest(key);
    const previous = this.#objects.get(name);
    if (current !== undefined) this.#accept(name, current);
    else if (previous !== undefined && ifMissing === "remove") this.#remove(name, previous);
    else if (previous !== undefined) void this.#removeLater(key, previous);
  }

  #accept(name: string, current: T): void {
    const previous = this.#objects.get(name);
    if (previous !== undefined && previous.metadata.uid !== current.metadata.uid) {
      this.#remove(name, previous);
      this.#accept(name, current);
      return;
    }
    if (previous !== undefined && parseVersion(current) <= parseVersion(previous)) return;
    this.#objects.set(name, current);
    this.#notify(
      previous === undefined ? { kind: "added", current } : { kind: "updated", previous, current },
    );
  }

  async #removeLater(key: ObjectKey, removed: T): Promise<void> {
    try {
      await this.#clock.sleep(REMOVAL_DELAY_MS, this.#signal);
    } catch {
      return; // An abort cancels the removal.
    }
    const isUnchanged = this.#objects.get(printKey(key))?.metadata.uid === removed.metadata.uid;
    if (isUnchanged) this.#update(key, "remove");
  }

  #remove(name: string, previous: T): void {
    this.#objects.delete(name);
    this.#notify({ kind: "deleted", previous });
  }

  #notify(change: Change<T>): void {
    for (const listener of this.#listeners) listener(change);
  }
}

function changedObject<T extends KubeObject>(change: Change<T>): T {
  return change.kind === "deleted" ? change.previous : change.current;
}

/**
 * Joins two caches into one with the newest version of each object. Removes an object that neither cache contains. If only the second
 * cache contained the object before, waits for REMOVAL_DELAY_MS first, because a relabeled object may appear in the first cache late.
 */
export function joinCaches<T extends KubeObject>(
  caches: readonly [first: Cache<T>, second: Cache<T>],
  clock: Clock,
  signal: AbortSignal,
): Cache<T> {
  return new JoinedCache(caches, clock, signal);
}
