// SPDX-License-Identifier: Apache-2.0
// Pauses for a listener, because a tenant can cause events at any rate.

/** Pause after an event. */
const SHORT_PAUSE_MS = 50;

/** Maximum number of short pauses in a row. One becomes available again per `LONG_PAUSE_MS`. */
const SHORT_PAUSES_MAX = 10;

/** Pause after an event when no short pause is available. */
const LONG_PAUSE_MS = 1000;

export class Throttle {
  #shortPausesLeft = SHORT_PAUSES_MAX;
  #updatedMs = performance.now();

  readonly longMs = LONG_PAUSE_MS;

  nextMs(): number {
    const nowMs = performance.now();
    const restored = (nowMs - this.#updatedMs) / LONG_PAUSE_MS;
    this.#updatedMs = nowMs;
    this.#shortPausesLeft = Math.min(SHORT_PAUSES_MAX, this.#shortPausesLeft + restored);
    if (this.#shortPausesLeft < 1) return LONG_PAUSE_MS;
    this.#shortPausesLeft -= 1;
    return SHORT_PAUSE_MS;
  }
}
