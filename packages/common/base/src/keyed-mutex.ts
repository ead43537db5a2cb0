// SPDX-License-Identifier: Apache-2.0

/** One lock for each key, for example NAMESPACE/NAME or a UID. A lock exists while someone holds or awaits it. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  /**
   * Runs `work` after all work queued earlier under the same key has settled. `work` must not await other work under its
   * own key: that deadlocks.
   */
  async runExclusive<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const own = (async () => {
      // The earlier caller handles its own error.
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
