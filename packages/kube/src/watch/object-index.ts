// SPDX-License-Identifier: Apache-2.0
// Objects by key, found by index values, listed in order.

/** Index functions by name. */
export type IndexFunctions<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

type Postings = Map<string, Set<string>>;

/** A map with indexes. */
export class ObjectIndex<T> {
  readonly #functions: IndexFunctions<T>;
  readonly #objects = new Map<string, T>();
  readonly #postings = new Map<string, Postings>();
  /** Keys in order; undefined after keys have come or gone. */
  #sorted: readonly string[] | undefined;

  constructor(functions: IndexFunctions<T>) {
    this.#functions = functions;
    for (const name of Object.keys(functions)) this.#postings.set(name, new Map());
  }

  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  /** All keys, sorted. */
  keys(): readonly string[] {
    this.#sorted ??= [...this.#objects.keys()].sort();
    return this.#sorted;
  }

  set(key: string, object: T): void {
    this.#unpost(key);
    if (!this.#objects.has(key)) this.#sorted = undefined;
    this.#objects.set(key, object);
    for (const [name, valuesOf] of Object.entries(this.#functions)) {
      for (const value of valuesOf(object)) this.#post(name, value, key);
    }
  }

  delete(key: string): void {
    this.#unpost(key);
    if (this.#objects.delete(key)) this.#sorted = undefined;
  }

  /** All objects in order of their keys. */
  list(): readonly T[] {
    return this.#pick(this.keys());
  }

  /** Objects for which the index function gave `value`, in order of their keys. */
  listBy(index: string, value: string): readonly T[] {
    const postings = this.#postings.get(index);
    if (postings === undefined) throw new RangeError(`there is no index ${index}`);
    return this.#pick([...(postings.get(value) ?? [])].sort());
  }

  #pick(keys: readonly string[]): readonly T[] {
    return keys.flatMap((key) => {
      const object = this.#objects.get(key);
      return object === undefined ? [] : [object];
    });
  }

  #post(index: string, value: string, key: string): void {
    const postings = this.#postings.get(index);
    const keys = postings?.get(value) ?? new Set();
    keys.add(key);
    postings?.set(value, keys);
  }

  #unpost(key: string): void {
    const object = this.#objects.get(key);
    if (object === undefined) return;
    for (const [name, valuesOf] of Object.entries(this.#functions)) {
      for (const value of valuesOf(object)) this.#forget(name, value, key);
    }
  }

  #forget(index: string, value: string, key: string): void {
    const keys = this.#postings.get(index)?.get(value);
    keys?.delete(key);
    if (keys?.size === 0) this.#postings.get(index)?.delete(value);
  }
}
