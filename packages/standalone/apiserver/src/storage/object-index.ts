// SPDX-License-Identifier: Apache-2.0
import { type Address, printAddress } from "../objects/object.ts";
import { type Scope, keyRange } from "./store.ts";
import type { TextObject } from "./text-object.ts";

function lowerBound(keys: readonly string[], key: string): number {
  const lastKey = keys.at(-1);
  if (lastKey === undefined || lastKey < key) {
    // Appends without a search if keys are added in order, for example when a store is opened.
    return keys.length;
  }
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
  readonly objects: Map<string, TextObject>;
  readonly keys: string[];
}

export class ObjectIndex {
  readonly #buckets = new Map<string, Bucket>();

  find(address: Address): TextObject | undefined {
    return this.#buckets.get(address.bucket)?.objects.get(printAddress(address));
  }

  buckets(): readonly string[] {
    return [...this.#buckets]
      .filter(([, bucket]) => bucket.keys.length > 0)
      .map(([name]) => name)
      .sort();
  }

  list(scope: Scope): readonly TextObject[] {
    const bucket = this.#buckets.get(scope.bucket);
    if (bucket === undefined) {
      return [];
    }
    const [from, to] = keyRange(scope);
    return bucket.keys
      .slice(lowerBound(bucket.keys, from), lowerBound(bucket.keys, to))
      .flatMap((key) => bucket.objects.get(key) ?? []);
  }

  set(object: TextObject): void {
    const bucket = this.#getOrCreateBucket(object.address.bucket);
    const key = printAddress(object.address);
    if (!bucket.objects.has(key)) {
      bucket.keys.splice(lowerBound(bucket.keys, key), 0, key);
    }
    bucket.objects.set(key, object);
  }

  remove(address: Address): void {
    const bucket = this.#getOrCreateBucket(address.bucket);
    const key = printAddress(address);
    if (bucket.objects.delete(key)) {
      bucket.keys.splice(lowerBound(bucket.keys, key), 1);
    }
  }

  #getOrCreateBucket(name: string): Bucket {
    const existingBucket = this.#buckets.get(name);
    if (existingBucket !== undefined) {
      return existingBucket;
    }
    const newBucket: Bucket = { objects: new Map(), keys: [] };
    this.#buckets.set(name, newBucket);
    return newBucket;
  }
}
