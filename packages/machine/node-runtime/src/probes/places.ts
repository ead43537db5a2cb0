// SPDX-License-Identifier: Apache-2.0
// How much is done at once?

/** So many places; who finds none free waits, in the order of asking. */
export class Places {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  /** Does `work` when there is a place. */
  async use<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#free > 0) {
      this.#free -= 1;
    } else {
      const { promise, resolve } = Promise.withResolvers<undefined>();
      this.#waiting.push(() => {
        resolve(undefined);
      });
      await promise;
    }
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
