// SPDX-License-Identifier: Apache-2.0
// Fair sharing of the event loop between users.
import type { Clock } from "@patchbay/core/ports";

/** Lets long work through piece by piece: between two pieces everything else is served. */
export class FairQueue {
  /** Who waits, by user; users in the order in which they are served. */
  readonly #waiting = new Map<string, ((value: undefined) => void)[]>();
  #isScheduled = false;

  /** Resolves when the user's next piece of work may be done; it begins in that turn. */
  take(user: string): Promise<undefined> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const own = this.#waiting.get(user);
    if (own === undefined) {
      this.#waiting.set(user, [resolve]);
    } else {
      own.push(resolve);
    }
    this.#schedule();
    return promise;
  }

  #schedule(): void {
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      setImmediate(() => {
        this.#isScheduled = false;
        this.#letOneThrough();
      });
    }
  }

  #letOneThrough(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      return;
    }
    const [user, own] = next;
    const resolve = own.shift();
    // Behind all others, or gone.
    this.#waiting.delete(user);
    if (own.length > 0) {
      this.#waiting.set(user, own);
    }
    if (this.#waiting.size > 0) {
      this.#schedule();
    }
    resolve?.(undefined);
  }
}

/** Characters that are worked on in less than a moment. */
const LIGHT_LENGTH = 16 * 1024;

/** Whether a text is worth a turn of its own. */
export function isHeavy(length: number): boolean {
  return length > LIGHT_LENGTH;
}

/** Nobody else is served for so long. */
const SLICE_MS = 10;

/** The pace of one piece of work, which asks `isOver` before each object and then waits for `next`. */
export class Pace {
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

  get isOver(): boolean {
    return this.#clock.monotonicMs() - this.#begunMs >= SLICE_MS;
  }

  /** Resolves when it may go on. */
  async next(): Promise<void> {
    await this.#fairQueue.take(this.#user);
    this.#begunMs = this.#clock.monotonicMs();
  }
}
