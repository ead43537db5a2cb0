// SPDX-License-Identifier: Apache-2.0
// What becomes of a write that somebody else was faster than? It is planned anew, on fresh facts.

/** Writers that were faster so many times in a row are a fault of their own. */
const ATTEMPTS_MAX = 10;

/** Requests on one VM go one after the other: else many of them do little but lose to each other. */
export class Turns {
  /** The last request on each VM, by NAMESPACE/NAME. */
  readonly #last = new Map<string, Promise<unknown>>();

  /** Does `work` when every request on the same VM that came before has been answered. */
  async take<T>(vm: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(vm);
    const own = (async () => {
      // How the others end is theirs.
      await before?.catch(() => undefined);
      return work();
    })();
    this.#last.set(vm, own);
    try {
      return await own;
    } finally {
      if (this.#last.get(vm) === own) this.#last.delete(vm);
    }
  }
}

/** Tries again until the race is won; undefined where it never is. */
export async function insist<T>(attempt: () => Promise<T | "again">): Promise<T | undefined> {
  for (let count = 0; count < ATTEMPTS_MAX; count += 1) {
    const result = await attempt();
    if (result !== "again") return result;
  }
  return undefined;
}
