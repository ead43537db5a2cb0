// SPDX-License-Identifier: Apache-2.0
// Mutations that are committed together. If a mutation fails, only its own changes are rolled back.
import { printJson } from "../objects/json.ts";
import { type Address, type KubeObject, parseAddress, printAddress } from "../objects/object.ts";
import type { ObjectIndex } from "./object-index.ts";
import {
  type Change,
  type ChangeType,
  OBJECT_MAX_LENGTH,
  ObjectTooLong,
  type Transaction,
} from "./store.ts";
import { type TextCache, TextObject, extractStoredMetadata } from "./text-object.ts";

/** The store commits a batch that reaches this number or length of changes, and serves other requests before the next batch. */
const CHANGES_MAX = 250;
const CHANGES_MAX_LENGTH = 1024 * 1024;

/** Maximum length of the text that a deletion mark adds to an object, in characters. */
const DELETION_MARK_MAX_LENGTH = 1024;

/** Maximum growth of an object on a full disk, in characters. It is enough for a status or a deletion mark. */
const GROWTH_MAX_LENGTH = 4096;

export interface BatchChange extends Change {
  readonly current: TextObject;
  readonly previous: TextObject | undefined;
}

export class Batch implements Transaction {
  readonly changes: BatchChange[] = [];
  #pending: BatchChange[] = [];
  readonly #states = new Map<string, TextObject | undefined>();
  readonly #index: ObjectIndex;
  readonly #texts: TextCache;
  #revision: number;
  #length = 0;

  get isFull(): boolean {
    return this.changes.length >= CHANGES_MAX || this.#length >= CHANGES_MAX_LENGTH;
  }

  /** Whether the current mutation creates an object, or enlarges an object by more than GROWTH_MAX_LENGTH. Forbidden on a full disk. */
  get isGrowing(): boolean {
    return this.#pending.some(({ type, current, previous }) => {
      const sizeLimit = previous === undefined ? 0 : previous.text.length + GROWTH_MAX_LENGTH;
      return type !== "DELETED" && current.text.length > sizeLimit;
    });
  }

  constructor(index: ObjectIndex, texts: TextCache, revision: number) {
    this.#index = index;
    this.#texts = texts;
    this.#revision = revision;
  }

  find(address: Address): TextObject | undefined {
    const key = printAddress(address);
    const pendingChange = this.#pending.findLast(
      (change) => printAddress(change.current.address) === key,
    );
    if (pendingChange !== undefined) {
      return pendingChange.type === "DELETED" ? undefined : pendingChange.current;
    }
    return this.#states.has(key) ? this.#states.get(key) : this.#index.find(address);
  }

  list(bucket: string): readonly TextObject[] {
    const objectsByKey = new Map<string, TextObject | undefined>(
      this.#index.list({ bucket }).map((object) => [printAddress(object.address), object]),
    );
    for (const [key, state] of this.#states) {
      if (parseAddress(key).bucket === bucket) objectsByKey.set(key, state);
    }
    for (const { type, current } of this.#pending) {
      if (current.address.bucket !== bucket) continue;
      objectsByKey.set(printAddress(current.address), type === "DELETED" ? undefined : current);
    }
    return [...objectsByKey.values()].filter((object) => object !== undefined);
  }

  put(address: Address, object: KubeObject): KubeObject {
    return this.#record(address, object, this.find(address) === undefined ? "ADDED" : "MODIFIED");
  }

  remove(address: Address, object: KubeObject): KubeObject {
    return this.#record(address, object, "DELETED");
  }

  accept(): void {
    for (const change of this.#pending) {
      const state = change.type === "DELETED" ? undefined : change.current;
      this.#states.set(printAddress(change.current.address), state);
      this.changes.push(change);
    }
    this.#pending = [];
  }

  rollBack(): void {
    this.#revision -= this.#pending.length;
    this.#pending = [];
  }

  #record(address: Address, object: KubeObject, type: ChangeType): KubeObject {
    const previous = this.find(address);
    this.#revision += 1;
    object.metadata.resourceVersion = String(this.#revision);
    const identity = {
      // Reuses the strings of the previous address to save memory.
      address: previous?.address ?? { ...address },
      revision: this.#revision,
      metadata: extractStoredMetadata(object),
    };
    const text = printJson(object);
    // Any stored object may grow by the length of a deletion mark. Otherwise, an object near or above the limit could not be deleted.
    const sizeLimit = previous === undefined ? 0 : previous.text.length + DELETION_MARK_MAX_LENGTH;
    if (text.length > Math.max(OBJECT_MAX_LENGTH, sizeLimit)) {
      throw new ObjectTooLong();
    }
    this.#length += text.length;
    const current = new TextObject(identity, this.#texts, text);
    this.#pending.push({ type, revision: this.#revision, current, previous });
    return object;
  }
}
