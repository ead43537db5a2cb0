// SPDX-License-Identifier: Apache-2.0
// Time that stands still until a test moves it.
import type { Clock } from "@patchbay/base";

/** A clock that a test moves; it begins at 0. */
export interface FakeClock extends Clock {
  /** When the sleepers are due, in order, milliseconds. */
  readonly dueMs: readonly number[];
  /** Moves time and lets what is due run, the first due first. */
  advance(ms: number): Promise<void>;
}

interface Sleeper {
  readonly dueMs: number;
  readonly wake: () => void;
}

class ManualClock implements FakeClock {
  #nowMs = 0;
  readonly #sleepers = new Set<Sleeper>();

  get dueMs(): readonly number[] {
    return this.#inOrder().map(({ dueMs }) => dueMs);
  }

  now(): number {
    return this.#nowMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    const refuse = (): void => {
      this.#sleepers.delete(sleeper);
      reject(signal.reason as Error); // what the caller aborted with
    };
    const wake = (): void => {
      this.#sleepers.delete(sleeper);
      signal.removeEventListener("abort", refuse);
      resolve(undefined);
    };
    const sleeper = { dueMs: this.#nowMs + ms, wake };
    this.#sleepers.add(sleeper);
    signal.addEventListener("abort", refuse);
    if (signal.aborted) refuse();
    return promise;
  }

  async advance(ms: number): Promise<void> {
    this.#nowMs += ms;
    for (const { dueMs, wake } of this.#inOrder()) {
      if (dueMs <= this.#nowMs) wake();
    }
    await settle();
  }

  #inOrder(): readonly Sleeper[] {
    return [...this.#sleepers].sort((one, other) => one.dueMs - other.dueMs);
  }
}

/** Lets all promises that can run do so. */
export async function settle(): Promise<void> {
  for (let round = 0; round < 20; round += 1) await Promise.resolve();
}

/** A clock that says 0. */
export function createFakeClock(): FakeClock {
  return new ManualClock();
}
