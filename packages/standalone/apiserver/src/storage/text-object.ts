// SPDX-License-Identifier: Apache-2.0
import { parseJson } from "../objects/json.ts";
import type { Address, KubeObject } from "../objects/object.ts";
import type { StoredMetadata, StoredObject } from "./store.ts";

export interface TextSource {
  readText(revision: number): string;
}

const NO_OWNERS: readonly string[] = [];

export function extractStoredMetadata({ metadata }: KubeObject): StoredMetadata {
  const owners = metadata.ownerReferences?.map(({ uid }) => uid) ?? NO_OWNERS;
  return { uid: metadata.uid ?? "", owners, isDeleting: metadata.deletionTimestamp !== undefined };
}

/** An object at one revision. The text is parsed on demand, and the parsed object is cached until garbage collection. */
export class TextObject implements StoredObject {
  readonly address: Address;
  readonly revision: number;
  readonly uid: string;
  readonly owners: readonly string[];
  readonly isDeleting: boolean;
  /** Whether the text was read since the cache last considered evicting it. */
  wasRead = false;
  #text: string | undefined;
  #view: WeakRef<KubeObject> | undefined;
  readonly #source: TextCache | TextSource;

  constructor(
    identity: {
      readonly address: Address;
      readonly revision: number;
      readonly metadata: StoredMetadata;
    },
    source: TextCache | TextSource,
    text?: string,
  ) {
    this.address = identity.address;
    this.revision = identity.revision;
    this.uid = identity.metadata.uid;
    this.owners = identity.metadata.owners.length === 0 ? NO_OWNERS : identity.metadata.owners;
    this.isDeleting = identity.metadata.isDeleting;
    this.#source = source;
    this.#text = text;
  }

  get text(): string {
    this.wasRead = true;
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
    const cachedView = this.#view?.deref();
    if (cachedView !== undefined) {
      return cachedView;
    }
    const object = this.copy();
    this.#view = new WeakRef(object);
    return object;
  }

  copy(): KubeObject {
    return parseJson(this.text) as KubeObject;
  }

  loadText(): void {
    this.#text = this.text;
  }

  /** Frees the text, which is read again on demand. */
  freeText(): void {
    this.#text = undefined;
  }

  get cachedLength(): number {
    return this.#text?.length ?? 0;
  }
}

/** Cache for texts of current objects, with a maximum total length in characters. */
export class TextCache {
  readonly #source: TextSource;
  readonly #maxLength: number;
  readonly #cachedObjects = new Set<TextObject>();
  #length = 0;

  constructor(source: TextSource, maxLength: number) {
    this.#source = source;
    this.#maxLength = maxLength;
  }

  readText(revision: number): string {
    return this.#source.readText(revision);
  }

  add(object: TextObject, text: string): void {
    this.#cachedObjects.add(object);
    this.#length += text.length;
    this.#evict();
  }

  /** Removes a replaced object from the cache. Loads its text first, because readers may need the text after a compaction. */
  release(object: TextObject): void {
    object.loadText();
    if (this.#cachedObjects.delete(object)) {
      this.#length -= object.cachedLength;
    }
  }

  /** Evicts texts until the cache is within its limit. A text that was read recently is skipped once (second-chance algorithm). */
  #evict(): void {
    for (const object of this.#cachedObjects) {
      if (this.#length <= this.#maxLength) {
        return;
      }
      this.#cachedObjects.delete(object);
      if (object.wasRead) {
        object.wasRead = false;
        this.#cachedObjects.add(object);
      } else {
        this.#length -= object.cachedLength;
        object.freeText();
      }
    }
  }
}
