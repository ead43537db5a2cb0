// SPDX-License-Identifier: Apache-2.0
// Waits until there is something to look at. What happens while nobody waits is not lost.
import type { Clock } from "@patchbay/core/ports";

/** Somebody who is woken. */
export class Sleeper {
  readonly #clock: Clock;
  #isWoken = false;
  #wake: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  wake(): void {
    this.#isWoken = true;
    this.#wake?.();
  }

  /** Resolves when somebody has called `wake` since the last time, after `ms`, or when the signal is aborted. */
  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#isWoken && !signal.aborted) {
      const awake = new AbortController();
      this.#wake = () => {
        awake.abort(new Error("woken"));
      };
      // Woken, aborted or over: whoever slept looks for itself.
      await this.#clock.sleep(ms, AbortSignal.any([signal, awake.signal])).catch(() => undefined);
      this.#wake = undefined;
    }
    this.#isWoken = false;
  }
}
