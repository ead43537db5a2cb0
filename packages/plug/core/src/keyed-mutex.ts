// SPDX-License-Identifier: Apache-2.0
// Work on one thing, one after the other, while work on other things goes on.

/** Turns by the name of what is worked on, for example NAMESPACE/NAME or a uid. */
export class Turns {
  /** The last work on each thing. */
  readonly #last = new Map<string, Promise<unknown>>();

  /**
   * Does `work` when all work on the same thing that was asked for before has ended, well or not. Work must not wait for
   * another turn of its own thing.
   */
  async take<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name);
    const own = (async () => {
      // How the others end is theirs.
      await before?.catch(() => undefined);
      return work();
    })();
    this.#last.set(name, own);
    try {
      return await own;
    } finally {
      if (this.#last.get(name) === own) this.#last.delete(name);
    }
  }
}
