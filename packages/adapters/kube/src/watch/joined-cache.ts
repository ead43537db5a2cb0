// SPDX-License-Identifier: Apache-2.0
// The objects that either of two watches tells of, as one cache: a label selector knows no "or".
import type { KubeObject } from "@patchbay/api";
import type { Cache, Change, Clock, ObjectKey } from "@patchbay/core/ports";
import { keyOf, printKey } from "../objects/resource-path.ts";
import { versionOf } from "../objects/resource-version.ts";
import { ObjectIndex } from "./object-index.ts";

/**
 * An object that goes over from one watch to the other may leave the one before the other tells of it. For so long it stays,
 * milliseconds.
 */
const LINGER_MS = 5_000;

class JoinedCache<T extends KubeObject> implements Cache<T> {
  readonly #caches: readonly [Cache<T>, Cache<T>];
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #told = new ObjectIndex<T>({});
  readonly #listeners = new Set<(change: Change<T>) => void>();

  constructor(caches: readonly [Cache<T>, Cache<T>], clock: Clock, signal: AbortSignal) {
    this.#caches = caches;
    this.#clock = clock;
    this.#signal = signal;
    const [lasting, passing] = caches;
    lasting.onChange((change) => {
      this.#settle(keyOf(objectOf(change)), "gone");
    });
    passing.onChange((change) => {
      this.#settle(keyOf(objectOf(change)), "lingers");
    });
  }

  onChange(listener: (change: Change<T>) => void): () => void {
    this.#listeners.add(listener);
    const forget = (): void => {
      this.#listeners.delete(listener);
    };
    return forget;
  }

  find(key: ObjectKey): T | undefined {
    return this.#told.get(printKey(key));
  }

  list(): readonly T[] {
    return this.#told.list();
  }

  listBy(index: string, value: string): readonly T[] {
    const found = this.#caches.flatMap((cache) => cache.listBy(index, value));
    const keys = [...new Set(found.map((object) => printKey(keyOf(object))))].sort();
    return keys.flatMap((key) => this.#told.get(key) ?? []);
  }

  async synced(): Promise<void> {
    await Promise.all(this.#caches.map((cache) => cache.synced()));
  }

  /** The newest that is told of it. */
  #newest(key: ObjectKey): T | undefined {
    const found = this.#caches.flatMap((cache) => cache.find(key) ?? []);
    return found.reduce<T | undefined>(
      (newest, each) =>
        newest === undefined || versionOf(newest) < versionOf(each) ? each : newest,
      undefined,
    );
  }

  #settle(key: ObjectKey, without: "gone" | "lingers"): void {
    const name = printKey(key);
    const current = this.#newest(key);
    const previous = this.#told.get(name);
    if (current !== undefined) this.#take(name, current);
    else if (previous !== undefined && without === "gone") this.#remove(name, previous);
    else if (previous !== undefined) void this.#linger(key, previous);
  }

  #take(name: string, current: T): void {
    const previous = this.#told.get(name);
    if (previous !== undefined && previous.metadata.uid !== current.metadata.uid) {
      this.#remove(name, previous);
      this.#take(name, current);
      return;
    }
    if (previous !== undefined && versionOf(current) <= versionOf(previous)) return;
    this.#told.set(name, current);
    this.#tell(
      previous === undefined ? { kind: "added", current } : { kind: "updated", previous, current },
    );
  }

  async #linger(key: ObjectKey, left: T): Promise<void> {
    try {
      await this.#clock.sleep(LINGER_MS, this.#signal);
    } catch {
      return; // aborted: nobody is told of anything any more
    }
    const isStill = this.#told.get(printKey(key))?.metadata.uid === left.metadata.uid;
    if (isStill) this.#settle(key, "gone");
  }

  #remove(name: string, previous: T): void {
    this.#told.delete(name);
    this.#tell({ kind: "deleted", previous });
  }

  #tell(change: Change<T>): void {
    for (const listener of this.#listeners) listener(change);
  }
}

function objectOf<T extends KubeObject>(change: Change<T>): T {
  return change.kind === "deleted" ? change.previous : change.current;
}

/**
 * What is in either; of what is in both, the newest. What leaves the first one is gone, unless it is in the second; what leaves the
 * second one is gone in a moment, unless it comes to the first meanwhile.
 */
export function joinCaches<T extends KubeObject>(
  caches: readonly [lasting: Cache<T>, passing: Cache<T>],
  clock: Clock,
  signal: AbortSignal,
): Cache<T> {
  return new JoinedCache(caches, clock, signal);
}
