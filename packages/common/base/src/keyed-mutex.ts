// SPDX-License-Identifier: Apache-2.0

/** Locks by key, for example NAMESPACE/NAME or a UID. */
export class KeyedMutex {
  readonly #lastWork = new Map<string, Promise<unknown>>();

  /** Runs `work` after all earlier work with its key has settled. Work that awaits other work with its own key would deadlock. */
  async runExclusive<T>(key: string, work: () => Promise<T>): Promise<T> {
    const previousWork = this.#lastWork.get(key);
    const ownWork = (async () => {
      // Ignores errors of the previous work, because its caller handles them.
      await previousWork?.catch(() => undefined);
      return work();
    })();
    this.#lastWork.set(key, ownWork);
    try {
      return await ownWork;
    } finally {
      if (this.#lastWork.get(key) === ownWork) this.#lastWork.delete(key);
    }
  }
}
