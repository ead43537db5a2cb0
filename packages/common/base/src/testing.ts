// SPDX-License-Identifier: Apache-2.0
// A clock for tests of this package, which cannot use the fakes of packages above it.
import type { Clock } from "./clock.ts";

interface Sleeper {
  readonly untilMs: number;
  readonly wake: () => void;
}

export class ManualClock implements Clock {
  #nowMs = 0;
  #sleepers: readonly Sleeper[] = [];

  now(): number {
    return this.#nowMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  sleep(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const wake = (): void => {
      resolve(undefined);
    };
    this.#sleepers = [...this.#sleepers, { untilMs: this.#nowMs + ms, wake }];
    return promise;
  }

  /** Wakes all that sleep until the new time, and lets them finish. */
  async advance(ms: number): Promise<void> {
    this.#nowMs += ms;
    const due = this.#sleepers.filter(({ untilMs }) => untilMs <= this.#nowMs);
    this.#sleepers = this.#sleepers.filter(({ untilMs }) => untilMs > this.#nowMs);
    for (const { wake } of due) wake();
    await new Promise((resolve) => setImmediate(resolve));
  }
}
