// SPDX-License-Identifier: Apache-2.0
// Who is served next, when one group may have many keys and another has one? Groups take turns.

/** Keys that wait, each once; the groups that they are of take turns, and within a group the first comes first. */
export class FairLine {
  readonly #groupOf: (key: string) => string;
  /** In the order of their turns; none is empty. */
  readonly #groups = new Map<string, Set<string>>();
  #size = 0;

  /** `groupOf` must give the same for a key each time. */
  constructor(groupOf: (key: string) => string) {
    this.#groupOf = groupOf;
  }

  get size(): number {
    return this.#size;
  }

  has(key: string): boolean {
    return this.#groups.get(this.#groupOf(key))?.has(key) === true;
  }

  /** Adds the key behind those of its group; one that waits keeps its place. */
  add(key: string): void {
    if (this.has(key)) return;
    const group = this.#groupOf(key);
    const keys = this.#groups.get(group) ?? new Set();
    this.#groups.set(group, keys.add(key));
    this.#size += 1;
  }

  /** Takes out the first key of the group whose turn it is; undefined when nobody waits. */
  take(): string | undefined {
    for (const [group, keys] of this.#groups) {
      this.#groups.delete(group);
      for (const key of keys) {
        keys.delete(key);
        this.#size -= 1;
        // Its next turn comes after those of the others.
        if (keys.size > 0) this.#groups.set(group, keys);
        return key;
      }
    }
    return undefined;
  }

  /** Takes out a key that does not wait any more; whether it waited. */
  remove(key: string): boolean {
    const group = this.#groupOf(key);
    const keys = this.#groups.get(group);
    if (keys?.delete(key) !== true) return false;
    this.#size -= 1;
    if (keys.size === 0) this.#groups.delete(group);
    return true;
  }

  /** The keys, group after group. */
  list(): readonly string[] {
    return [...this.#groups.values()].flatMap((keys) => [...keys]);
  }
}
