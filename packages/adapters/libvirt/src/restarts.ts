// SPDX-License-Identifier: Apache-2.0
// How long to wait before the child is started again? A child that somebody can make die would else be started for ever.

/** The wait before the second start in a row, milliseconds; then doubled. The first restart is at once. */
const FIRST_MS = 500;
/** Longest wait: all VMs of the node wait with it. */
const LONGEST_MS = 30_000;
/** A child that lived so long was in health, and its end is a first one. */
const HEALTHY_MS = 60_000;

/** Counts children that ended too soon. */
export class Restarts {
  #failures = 0;

  /** A child has ended, or did not even start; `livedMs` is how long it lived. */
  noteEnd(livedMs: number): void {
    this.#failures = livedMs >= HEALTHY_MS ? 1 : this.#failures + 1;
  }

  /** The wait before the next start. */
  get pauseMs(): number {
    if (this.#failures < 2) return 0;
    return Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(this.#failures - 2, 30));
  }
}
