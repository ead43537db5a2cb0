// SPDX-License-Identifier: Apache-2.0
// A clock for tests that stands still until it is moved.
import type { Clock } from "@patchbay/ports";

interface Sleeper {
  readonly dueMs: number;
  readonly wake: () => void;
}

/** A clock that a test moves. */
export class FakeClock implements Clock {
  #nowMs = 0;
  readonly #sleepers = new Set<Sleeper>();

  now(): number {
    return this.#nowMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  /** When the sleepers are due, in order. */
  get dueMs(): readonly number[] {
    return [...this.#sleepers].map(({ dueMs }) => dueMs).sort((a, b) => a - b);
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const sleeper = { dueMs: this.#nowMs + ms, wake: resolve };
      this.#sleepers.add(sleeper);
      const refuse = (): void => {
        this.#sleepers.delete(sleeper);
        reject(new Error("aborted"));
      };
      signal.addEventListener("abort", refuse);
      if (signal.aborted) refuse();
    });
  }

  /** Moves time and lets what is due run. */
  async advance(ms: number): Promise<void> {
    this.#nowMs += ms;
    for (const sleeper of this.#sleepers) {
      if (sleeper.dueMs > this.#nowMs) continue;
      this.#sleepers.delete(sleeper);
      sleeper.wake();
    }
    await settle();
  }
}

/** Lets all promises that can run do so. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await Promise.resolve();
}
