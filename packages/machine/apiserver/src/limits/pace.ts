// SPDX-License-Identifier: Apache-2.0
// When must work on many objects leave the processor to others?
import type { Clock } from "@patchbay/core/ports";
import type { FairQueue } from "./fair-queue.ts";

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
