// SPDX-License-Identifier: Apache-2.0
// Objects by key, found by index values, listed in order.

/** Index functions by name. */
export type IndexFunctions<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

/** A map with indexes. */
export class ObjectIndex<T> {
  readonly #functions: IndexFunctions<T>;
  readonly #objects = new Map<string, T>();
  /** Keys by index and value; see `placeOf`. */
  readonly #postings = new Map<string, Set<string>>();
  /** Keys in order; undefined after keys have come or gone. */
  #sorted: readonly string[] | undefined;

  constructor(functions: IndexFunctions<T>) {
    this.#functions = functions;
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
    for (const place of this.#placesOf(object)) this.#post(place, key);
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
    if (this.#functions[index] === undefined) throw new RangeError(`there is no index ${index}`);
    const keys = this.#postings.get(placeOf(index, value));
    return keys === undefined ? [] : this.#pick([...keys].sort());
  }

  #pick(keys: readonly string[]): readonly T[] {
    return keys.flatMap((key) => this.#objects.get(key) ?? []);
  }

  #post(place: string, key: string): void {
    const keys = this.#postings.get(place) ?? new Set();
    this.#postings.set(place, keys.add(key));
  }

  #unpost(key: string): void {
    const object = this.#objects.get(key);
    if (object === undefined) return;
    for (const place of this.#placesOf(object)) this.#forget(place, key);
  }

  #forget(place: string, key: string): void {
    const keys = this.#postings.get(place);
    keys?.delete(key);
    // Stryker disable next-line all: gives memory back, and nothing else
    if (keys?.size === 0) this.#postings.delete(place);
  }

  #placesOf(object: T): readonly string[] {
    return Object.entries(this.#functions).flatMap(([index, valuesOf]) =>
      valuesOf(object).map((value) => placeOf(index, value)),
    );
  }
}

function placeOf(index: string, value: string): string {
  return JSON.stringify([index, value]);
}
