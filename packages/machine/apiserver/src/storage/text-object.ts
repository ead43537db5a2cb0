// SPDX-License-Identifier: Apache-2.0
// A state of an object: facts at hand, text and parsed form as long as memory allows.
import { parseJson } from "../objects/json.ts";
import type { Address, KubeObject } from "../objects/object.ts";
import type { StoredFacts, StoredObject } from "./store.ts";

/** Where the text of a state can be read again. */
export interface TextSource {
  readText(revision: number): string;
}

const NO_OWNERS: readonly string[] = [];

/** The facts of an object. */
export function factsOf({ metadata }: KubeObject): StoredFacts {
  const owners = metadata.ownerReferences?.map(({ uid }) => uid) ?? NO_OWNERS;
  return { uid: metadata.uid ?? "", owners, deleting: metadata.deletionTimestamp !== undefined };
}

/** A state of an object; parsed on demand, the parsed form is kept only while memory allows. */
export class TextObject implements StoredObject {
  readonly address: Address;
  readonly revision: number;
  readonly uid: string;
  readonly owners: readonly string[];
  readonly deleting: boolean;
  /** Whether the text was asked for since the cache looked last. */
  used = false;
  #text: string | undefined;
  #view: WeakRef<KubeObject> | undefined;
  readonly #source: TextCache | TextSource;

  /** `text`: undefined where it is read from `source` on demand. */
  constructor(
    at: { readonly address: Address; readonly revision: number; readonly facts: StoredFacts },
    source: TextCache | TextSource,
    text?: string,
  ) {
    this.address = at.address;
    this.revision = at.revision;
    this.uid = at.facts.uid;
    this.owners = at.facts.owners.length === 0 ? NO_OWNERS : at.facts.owners;
    this.deleting = at.facts.deleting;
    this.#source = source;
    this.#text = text;
  }

  get text(): string {
    this.used = true;
    if (this.#text !== undefined) {
      return this.#text;
    }
    const text = this.#source.readText(this.revision);
    this.#text = text;
    if (this.#source instanceof TextCache) {
      this.#source.add(this, text);
    }
    return text;
  }

  view(): KubeObject {
    const cached = this.#view?.deref();
    if (cached !== undefined) {
      return cached;
    }
    const parsed = this.copy();
    this.#view = new WeakRef(parsed);
    return parsed;
  }

  copy(): KubeObject {
    // Only objects are stored: put and remove take nothing else.
    return parseJson(this.text) as KubeObject;
  }

  hold(): void {
    this.#text = this.text;
  }

  /** Lets the text go; it is read again when it is asked for. */
  drop(): void {
    this.#text = undefined;
  }

  /** Length of the text in memory. */
  get heldLength(): number {
    return this.#text?.length ?? 0;
  }
}

/** The texts of current objects that are in memory, up to a number of characters. */
export class TextCache {
  readonly #source: TextSource;
  readonly #maxLength: number;
  readonly #held = new Set<TextObject>();
  #length = 0;

  constructor(source: TextSource, maxLength: number) {
    this.#source = source;
    this.#maxLength = maxLength;
  }

  readText(revision: number): string {
    return this.#source.readText(revision);
  }

  /** Takes the text of a current object into account; others may have to go. */
  add(object: TextObject, text: string): void {
    this.#held.add(object);
    this.#length += text.length;
    this.#makeRoom();
  }

  /** An object that is no longer current keeps its text for those who still look at it: the log may forget it. */
  release(object: TextObject): void {
    object.hold();
    if (this.#held.delete(object)) {
      this.#length -= object.heldLength;
    }
  }

  /** Second chance: what was asked for since the last visit stays once more. */
  #makeRoom(): void {
    for (const object of this.#held) {
      if (this.#length <= this.#maxLength) {
        return;
      }
      this.#held.delete(object);
      if (object.used) {
        object.used = false;
        this.#held.add(object);
      } else {
        this.#length -= object.heldLength;
        object.drop();
      }
    }
  }
}
