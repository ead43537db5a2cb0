// SPDX-License-Identifier: Apache-2.0
import { parseJson } from "../objects/json.ts";
import type { Address, KubeObject } from "../objects/object.ts";
import type { StoredFacts, StoredObject } from "./store.ts";

export interface TextSource {
  readText(revision: number): string;
}

const NO_OWNERS: readonly string[] = [];

export function extractFacts({ metadata }: KubeObject): StoredFacts {
  const owners = metadata.ownerReferences?.map(({ uid }) => uid) ?? NO_OWNERS;
  return { uid: metadata.uid ?? "", owners, deleting: metadata.deletionTimestamp !== undefined };
}

/** An object at one revision. It is parsed on demand, and the result is kept as long as memory allows. */
export class TextObject implements StoredObject {
  readonly address: Address;
  readonly revision: number;
  readonly uid: string;
  readonly owners: readonly string[];
  readonly deleting: boolean;
  /** Whether the text was read since the cache last visited this object. */
  used = false;
  #text: string | undefined;
  #view: WeakRef<KubeObject> | undefined;
  readonly #source: TextCache | TextSource;

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
    // put and remove store objects only
    return parseJson(this.text) as KubeObject;
  }

  loadText(): void {
    this.#text = this.text;
  }

  /** Frees the text. It is read again on demand. */
  freeText(): void {
    this.#text = undefined;
  }

  get cachedLength(): number {
    return this.#text?.length ?? 0;
  }
}

/** Texts of current objects in memory, up to a number of characters. */
export class TextCache {
  readonly #source: TextSource;
  readonly #maxLength: number;
  readonly #cached = new Set<TextObject>();
  #length = 0;

  constructor(source: TextSource, maxLength: number) {
    this.#source = source;
    this.#maxLength = maxLength;
  }

  readText(revision: number): string {
    return this.#source.readText(revision);
  }

  add(object: TextObject, text: string): void {
    this.#cached.add(object);
    this.#length += text.length;
    this.#evict();
  }

  /** Loads the text of a replaced object, because readers may still have it when the log compacts it. */
  release(object: TextObject): void {
    object.loadText();
    if (this.#cached.delete(object)) {
      this.#length -= object.cachedLength;
    }
  }

  /** Second-chance eviction: a text that was read since the last visit stays once more. */
  #evict(): void {
    for (const object of this.#cached) {
      if (this.#length <= this.#maxLength) {
        return;
      }
      this.#cached.delete(object);
      if (object.used) {
        object.used = false;
        this.#cached.add(object);
      } else {
        this.#length -= object.cachedLength;
        object.freeText();
      }
    }
  }
}
