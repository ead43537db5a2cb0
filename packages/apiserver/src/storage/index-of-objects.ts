// SPDX-License-Identifier: Apache-2.0
// The current objects in memory, in the order of their addresses.
import { parseJson } from "../objects/json.ts";
import { type Address, type KubeObject, parseAddress, printAddress } from "../objects/object.ts";
import type { Scope, StoredObject } from "./store.ts";

/** A state of an object; parsed on demand, the parsed form is kept only while memory allows. */
export class TextObject implements StoredObject {
  readonly address: Address;
  readonly revision: number;
  readonly text: string;
  #view: WeakRef<KubeObject> | undefined;

  constructor(address: Address, revision: number, text: string) {
    this.address = address;
    this.revision = revision;
    this.text = text;
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
}

/** Index of the first key that is not below `key`. */
function lowerBound(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] ?? "") < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

interface Bucket {
  readonly objects: Map<string, StoredObject>;
  /** Keys of `objects`, sorted. */
  readonly keys: string[];
}

/** First key of a scope, and the first behind it: `/` is followed by `0` in ASCII. */
export function rangeOf(scope: Scope): readonly [string, string] {
  const prefix =
    scope.namespace === undefined ? scope.bucket : `${scope.bucket}/${scope.namespace}`;
  return [`${prefix}/`, `${prefix}0`];
}

/** All current objects. */
export class ObjectIndex {
  readonly #buckets = new Map<string, Bucket>();

  find(address: Address): StoredObject | undefined {
    return this.#buckets.get(address.bucket)?.objects.get(printAddress(address));
  }

  buckets(): readonly string[] {
    return [...this.#buckets]
      .filter(([, bucket]) => bucket.keys.length > 0)
      .map(([name]) => name)
      .sort();
  }

  list(scope: Scope): readonly StoredObject[] {
    const bucket = this.#buckets.get(scope.bucket);
    if (bucket === undefined) {
      return [];
    }
    const [from, to] = rangeOf(scope);
    return bucket.keys
      .slice(lowerBound(bucket.keys, from), lowerBound(bucket.keys, to))
      .flatMap((key) => bucket.objects.get(key) ?? []);
  }

  set(object: StoredObject): void {
    const bucket = this.#bucketOf(object.address.bucket);
    const key = printAddress(object.address);
    if (!bucket.objects.has(key)) {
      bucket.keys.splice(lowerBound(bucket.keys, key), 0, key);
    }
    bucket.objects.set(key, object);
  }

  remove(address: Address): void {
    const bucket = this.#bucketOf(address.bucket);
    const key = printAddress(address);
    if (bucket.objects.delete(key)) {
      bucket.keys.splice(lowerBound(bucket.keys, key), 1);
    }
  }

  #bucketOf(name: string): Bucket {
    const known = this.#buckets.get(name);
    if (known !== undefined) {
      return known;
    }
    const made: Bucket = { objects: new Map(), keys: [] };
    this.#buckets.set(name, made);
    return made;
  }
}

/** A state as the log holds it. */
export function toStored(key: string, revision: number, text: string): StoredObject {
  return new TextObject(parseAddress(key), revision, text);
}
