// SPDX-License-Identifier: Apache-2.0
import type { Clock } from "@patchbay/base";

/** Runs one piece of long work in each turn of the event loop, and alternates between users. */
export class FairQueue {
  readonly #waiting = new Map<string, ((value: undefined) => void)[]>();
  #isScheduled = false;

  /** The next piece must start in the turn in which the promise resolves. */
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
    const [next] = this.#waiting;
    if (next === undefined) {
      return;
    }
    const [user, queue] = next;
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

/** In characters. Shorter texts are processed without waiting. */
const LIGHT_LENGTH = 16 * 1024;

export function isHeavy(length: number): boolean {
  return length > LIGHT_LENGTH;
}

const SLICE_MS = 10;

/** The work checks `isOver` before each object, and then awaits `next`. */
export class TimeSlice {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #fairQueue: FairQueue;
  readonly #user: string;
  #begunMs: number;

  constructor(
    deps: { readonly clock: Pick<Clock, "monotonicMs">; readonly fairQueue: FairQueue },
    user: string,
  ) {
    this.#clock = deps.clock;
    this.#fairQueue = deps.fairQueue;
    this.#user = user;
    this.#begunMs = deps.clock.monotonicMs();
  }

  get isUsedUp(): boolean {
    return this.#clock.monotonicMs() - this.#begunMs >= SLICE_MS;
  }

  async waitForNext(): Promise<void> {
    await this.#fairQueue.waitForTurn(this.#user);
    this.#begunMs = this.#clock.monotonicMs();
  }
}
