// SPDX-License-Identifier: Apache-2.0
// How many conversations with hooks there are at once: a process each, and none of them may keep others waiting for ever.

/** At once on the node; each takes some 60 MiB. */
const SLOTS = 8;
/** Of one namespace, so that hooks that never answer keep nobody else's from being asked. */
const SLOTS_OF_ONE = 2;

interface Waiting {
  readonly namespace: string;
  readonly begin: () => void;
}

/** Work that waits until there is room for it; in its order, but for what its namespace has too much of. */
export class Slots {
  readonly #running: string[] = [];
  readonly #waiting: Waiting[] = [];

  /** Runs the work when there is room. */
  async run<T>(namespace: string, work: () => Promise<T>): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const begin = (): void => {
      this.#running.push(namespace);
      resolve(undefined);
    };
    this.#waiting.push({ namespace, begin });
    this.#fill();
    await promise;
    try {
      return await work();
    } finally {
      this.#running.splice(this.#running.indexOf(namespace), 1);
      this.#fill();
    }
  }

  #hasRoom(namespace: string): boolean {
    const own = this.#running.filter((one) => one === namespace).length;
    return this.#running.length < SLOTS && own < SLOTS_OF_ONE;
  }

  #fill(): void {
    for (const waiting of [...this.#waiting]) {
      if (!this.#hasRoom(waiting.namespace)) continue;
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      waiting.begin();
    }
  }
}
