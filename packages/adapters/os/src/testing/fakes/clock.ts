// SPDX-License-Identifier: Apache-2.0
import type { Clock } from "@patchbay/base";

/** A clock that starts at 0 and runs only when a test advances it. */
export interface FakeClock extends Clock {
  /** Times at which the sleepers wake, in order. */
  readonly dueMs: readonly number[];
  /** Advances the time, wakes due sleepers in order, and runs their promise callbacks. */
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
      reject(signal.reason as Error); // the caller's reason
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

/** Runs pending promise callbacks, 20 levels deep. */
export async function settle(): Promise<void> {
  for (let round = 0; round < 20; round += 1) await Promise.resolve();
}

export function createFakeClock(): FakeClock {
  return new ManualClock();
}
