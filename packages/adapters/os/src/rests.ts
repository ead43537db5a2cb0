// SPDX-License-Identifier: Apache-2.0
// How long nothing is listened to after something was heard from whoever can make as much noise as it likes?

/** After a change nothing is listened to for this time, milliseconds. */
const REST_MS = 50;

/** How many such rests are short when nothing happened for long; one comes back in each long rest. */
const SHORT_RESTS = 10;

/** A rest when there were too many, milliseconds. */
const LONG_REST_MS = 1000;

/** Rests of one listener: short ones, and long ones when there were many. */
export class Rests {
  #short = SHORT_RESTS;
  #countedMs = performance.now();

  /** A rest when nothing is at hand to listen with, milliseconds. */
  readonly longMs = LONG_REST_MS;

  /** The next rest, milliseconds. */
  nextMs(): number {
    const nowMs = performance.now();
    const back = (nowMs - this.#countedMs) / LONG_REST_MS;
    this.#countedMs = nowMs;
    this.#short = Math.min(SHORT_RESTS, this.#short + back);
    if (this.#short < 1) return LONG_REST_MS;
    this.#short -= 1;
    return REST_MS;
  }
}
