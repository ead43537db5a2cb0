// SPDX-License-Identifier: Apache-2.0
import type { Clock } from "@patchbay/base";

/** Queue for long work. Lets one caller proceed in each turn of the event loop, and alternates between users. */
export class FairQueue {
  readonly #waiting = new Map<string, ((value: undefined) => void)[]>();
  #isScheduled = false;

  /** Resolves when the user may start work. The caller must start the work in the same turn of the event loop. */
  waitForTurn(user: string): Promise<undefined> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const queue = this.#waiting.get(user);
    if (queue === undefined) {
      this.#waiting.set(user, [resolve]);
    } else {
      queue.push(resolve);
    }
    this.#schedule();
    return promise;
  }

  #schedule(): void {
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      setImmediate(() => {
        this.#isScheduled = false;
        this.#resolveNext();
      });
    }
  }

  #resolveNext(): void {
    const [nextEntry] = this.#waiting;
    if (nextEntry === undefined) {
      return;
    }
    const [user, queue] = nextEntry;
    const resolve = queue.shift();
    this.#waiting.delete(user);
    if (queue.length > 0) {
      this.#waiting.set(user, queue);
    }
    if (this.#waiting.size > 0) {
      this.#schedule();
    }
    resolve?.(undefined);
  }
}

/** Maximum length of a text that is processed without queueing, in characters. */
const LIGHT_LENGTH = 16 * 1024;

export function isHeavy(length: number): boolean {
  return length > LIGHT_LENGTH;
}

const SLICE_MS = 10;

/** Time slice of long work. After each object, the caller must check `isUsedUp`, and await `waitForNext` if it is true. */
export class TimeSlice {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #fairQueue: FairQueue;
  readonly #user: string;
  #startedMs: number;

  constructor(
    deps: { readonly clock: Pick<Clock, "monotonicMs">; readonly fairQueue: FairQueue },
    user: string,
  ) {
    this.#clock = deps.clock;
    this.#fairQueue = deps.fairQueue;
    this.#user = user;
    this.#startedMs = deps.clock.monotonicMs();
  }

  get isUsedUp(): boolean {
    return this.#clock.monotonicMs() - this.#startedMs >= SLICE_MS;
  }

  async waitForNext(): Promise<void> {
    await this.#fairQueue.waitForTurn(this.#user);
    this.#startedMs = this.#clock.monotonicMs();
  }
}
