// SPDX-License-Identifier: Apache-2.0
// What the mutations of one commit wrote; later ones see what earlier ones did, and none disturbs another.
import { printJson } from "../objects/json.ts";
import { type Address, type KubeObject, parseAddress, printAddress } from "../objects/object.ts";
import type { ObjectIndex } from "./index-of-objects.ts";
import {
  type Change,
  type ChangeType,
  OBJECT_MAX_LENGTH,
  ObjectTooLong,
  type Transaction,
} from "./store.ts";
import { type TextCache, TextObject, factsOf } from "./text-object.ts";

/** More is left to the next commit, so that others are served between them: changes, and characters of text. */
const CHANGES_MAX = 250;
const LENGTH_MAX = 1024 * 1024;

/** What the server itself adds to an object that is to be deleted, at most. */
const MARKS_LENGTH = 1024;

/** By so much an object may grow that is changed while the disk is full, characters: a status, or a mark of deletion. */
const GROWTH_MAX_LENGTH = 4096;

/** A change as the store makes it. */
export interface OwnChange extends Change {
  readonly current: TextObject;
  readonly previous: TextObject | undefined;
}

/** The mutations of one commit. */
export class Batch implements Transaction {
  readonly changes: OwnChange[] = [];
  #own: OwnChange[] = [];
  readonly #states = new Map<string, TextObject | undefined>();
  readonly #index: ObjectIndex;
  readonly #texts: TextCache;
  #revision: number;
  #length = 0;

  /** Whether enough is written for one turn of the event loop. */
  get isFull(): boolean {
    return this.changes.length >= CHANGES_MAX || this.#length >= LENGTH_MAX;
  }

  /** Whether the current mutation makes anything, or makes it larger, which has to wait on a full disk. */
  get isGrowing(): boolean {
    return this.#own.some(({ type, current, previous }) => {
      const before = previous === undefined ? 0 : previous.text.length + GROWTH_MAX_LENGTH;
      return type !== "DELETED" && current.text.length > before;
    });
  }

  /** `revision`: the last one that is taken. */
  constructor(index: ObjectIndex, texts: TextCache, revision: number) {
    this.#index = index;
    this.#texts = texts;
    this.#revision = revision;
  }

  find(address: Address): TextObject | undefined {
    const key = printAddress(address);
    const own = this.#own.findLast((change) => printAddress(change.current.address) === key);
    if (own !== undefined) {
      return own.type === "DELETED" ? undefined : own.current;
    }
    return this.#states.has(key) ? this.#states.get(key) : this.#index.find(address);
  }

  list(bucket: string): readonly TextObject[] {
    const found = new Map<string, TextObject | undefined>(
      this.#index.list({ bucket }).map((object) => [printAddress(object.address), object]),
    );
    for (const [key, state] of this.#states) {
      if (parseAddress(key).bucket === bucket) found.set(key, state);
    }
    for (const { type, current } of this.#own) {
      if (current.address.bucket !== bucket) continue;
      found.set(printAddress(current.address), type === "DELETED" ? undefined : current);
    }
    return [...found.values()].filter((object) => object !== undefined);
  }

  put(address: Address, object: KubeObject): KubeObject {
    return this.#record(address, object, this.find(address) === undefined ? "ADDED" : "MODIFIED");
  }

  remove(address: Address, object: KubeObject): KubeObject {
    return this.#record(address, object, "DELETED");
  }

  /** Keeps what the current mutation wrote. */
  keep(): void {
    for (const change of this.#own) {
      const state = change.type === "DELETED" ? undefined : change.current;
      this.#states.set(printAddress(change.current.address), state);
      this.changes.push(change);
    }
    this.#own = [];
  }

  /** Forgets what the current mutation wrote. */
  forget(): void {
    this.#revision -= this.#own.length;
    this.#own = [];
  }

  #record(address: Address, object: KubeObject, type: ChangeType): KubeObject {
    const previous = this.find(address);
    this.#revision += 1;
    object.metadata.resourceVersion = String(this.#revision);
    const at = {
      // The texts of an address that is known already are shared.
      address: previous?.address ?? { ...address },
      revision: this.#revision,
      facts: factsOf(object),
    };
    const text = printJson(object);
    // What is that long already is not kept from being marked and deleted.
    const before = previous === undefined ? 0 : previous.text.length + MARKS_LENGTH;
    if (text.length > Math.max(OBJECT_MAX_LENGTH, before)) {
      throw new ObjectTooLong();
    }
    this.#length += text.length;
    const current = new TextObject(at, this.#texts, text);
    this.#own.push({ type, revision: this.#revision, current, previous });
    return object;
  }
}
