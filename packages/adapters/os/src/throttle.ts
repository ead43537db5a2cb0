// SPDX-License-Identifier: Apache-2.0
// Decides how long to pause between events, because a tenant can cause events at any rate.

const SHORT_PAUSE_MS = 50;

/** Number of short pauses in a row before long pauses follow. Every `LONG_PAUSE_MS`, one more short pause is allowed. */
const SHORT_PAUSES_MAX = 10;

const LONG_PAUSE_MS = 1000;

export class Throttle {
  #shortPauses = SHORT_PAUSES_MAX;
  #updatedMs = performance.now();

  readonly longMs = LONG_PAUSE_MS;

  nextMs(): number {
    const nowMs = performance.now();
    const restoredPauses = (nowMs - this.#updatedMs) / LONG_PAUSE_MS;
    this.#updatedMs = nowMs;
    this.#shortPauses = Math.min(SHORT_PAUSES_MAX, this.#shortPauses + restoredPauses);
    if (this.#shortPauses < 1) return LONG_PAUSE_MS;
    this.#shortPauses -= 1;
    return SHORT_PAUSE_MS;
  }
}
