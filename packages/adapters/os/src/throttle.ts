// SPDX-License-Identifier: Apache-2.0
// Pauses a listener whose events a tenant can cause at any rate.

/** Pause after an event, milliseconds. */
const SHORT_PAUSE_MS = 50;

/** Short pauses in a row; each long pause restores one. */
const SHORT_PAUSES = 10;

/** Pause once the burst is used up, milliseconds. */
const LONG_PAUSE_MS = 1000;

export class Throttle {
  #short = SHORT_PAUSES;
  #countedMs = performance.now();

  readonly longMs = LONG_PAUSE_MS;

  nextMs(): number {
    const nowMs = performance.now();
    const back = (nowMs - this.#countedMs) / LONG_PAUSE_MS;
    this.#countedMs = nowMs;
    this.#short = Math.min(SHORT_PAUSES, this.#short + back);
    if (this.#short < 1) return LONG_PAUSE_MS;
    this.#short -= 1;
    return SHORT_PAUSE_MS;
  }
}
