// SPDX-License-Identifier: Apache-2.0
// How long nothing is listened to after something was heard from whoever can make as much noise as it likes?

/** After a change nothing is listened to for this time, milliseconds. */
const SHORT_MS = 50;

/** How many such waits are short when nothing happened for long; one comes back in each long wait. */
const BURST = 10;

/** A wait when there were too many, milliseconds. */
const LONG_MS = 1000;

/** Throttles one listener: short waits, and long ones when there were many. */
export class Throttle {
  #short = BURST;
  #countedMs = performance.now();

  /** A wait when nothing is at hand to listen with, milliseconds. */
  readonly longMs = LONG_MS;

  /** The next wait, milliseconds. */
  nextMs(): number {
    const nowMs = performance.now();
    const back = (nowMs - this.#countedMs) / LONG_MS;
    this.#countedMs = nowMs;
    this.#short = Math.min(BURST, this.#short + back);
    if (this.#short < 1) return LONG_MS;
    this.#short -= 1;
    return SHORT_MS;
  }
}
