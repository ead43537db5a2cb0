// SPDX-License-Identifier: Apache-2.0
// What the mutations of one commit wrote; later ones see what earlier ones did, and none disturbs another.
import { printJson } from "../objects/json.ts";
import { type Address, type KubeObject, printAddress } from "../objects/object.ts";
import type { ObjectIndex } from "./index-of-objects.ts";
import type { Change, ChangeType, Transaction } from "./store.ts";
import { type TextCache, TextObject, factsOf } from "./text-object.ts";

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
    const current = new TextObject(at, this.#texts, printJson(object));
    this.#own.push({ type, revision: this.#revision, current, previous });
    return object;
  }
}
