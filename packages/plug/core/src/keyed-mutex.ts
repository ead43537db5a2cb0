// SPDX-License-Identifier: Apache-2.0
// Work on one thing, one after the other, while work on other things goes on.

/** One lock for each key, for example NAMESPACE/NAME or a uid; it is there while somebody holds it or waits for it. */
export class KeyedMutex {
  /** The last work on each key. */
  readonly #last = new Map<string, Promise<unknown>>();

  /**
   * Does `work` when all work under the same key that was asked for before has ended, well or not. Work must not wait
   * for other work under its own key.
   */
  async runExclusive<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const own = (async () => {
      // How the others end is theirs.
      await before?.catch(() => undefined);
      return work();
    })();
    this.#last.set(key, own);
    try {
      return await own;
    } finally {
      if (this.#last.get(key) === own) this.#last.delete(key);
    }
  }
}
