// SPDX-License-Identifier: Apache-2.0
// Contract of Clock, for the fake and for the machine's clock.
import { describe, expect, test } from "vitest";
import type { Clock } from "@patchbay/base";

/** Clock and the means to let its time pass. */
export interface ClockBench {
  readonly clock: Clock;
  /** Resolves after at least `ms` milliseconds of the clock's time. */
  readonly pass: (ms: number) => Promise<void>;
}

/** Defines the contract's tests. Each test makes a new bench. */
export function describeClockContract(name: string, make: () => ClockBench): void {
  describe(`Clock: ${name}`, () => {
    const { signal } = new AbortController();

    test("both times advance", async () => {
      const { clock, pass } = make();
      const [wall, monotonic] = [clock.now(), clock.monotonicMs()];
      await pass(20);
      expect(clock.monotonicMs() - monotonic).toBeGreaterThanOrEqual(19);
      expect(clock.now()).toBeGreaterThan(wall);
    });

    test("sleeps end after their durations, the shortest first", async () => {
      const { clock, pass } = make();
      const start = clock.monotonicMs();
      const woken: string[] = [];
      const sleep = async (name: string, ms: number): Promise<void> => {
        await clock.sleep(ms, signal);
        woken.push(name);
      };
      const sleeps = [sleep("long", 30), sleep("short", 10)];
      await pass(30);
      await Promise.all(sleeps);
      expect(clock.monotonicMs() - start).toBeGreaterThanOrEqual(29);
      expect(woken).toEqual(["short", "long"]);
    });

    test("an aborted sleep rejects with the reason at once", async () => {
      const abort = new AbortController();
      const sleep = make().clock.sleep(60_000, abort.signal);
      const reason = new Error("stop");
      abort.abort(reason);
      await expect(sleep).rejects.toBe(reason);
    });

    test("a sleep on an aborted signal rejects with its reason", async () => {
      const reason = new Error("stopped before");
      await expect(make().clock.sleep(0, AbortSignal.abort(reason))).rejects.toBe(reason);
    });
  });
}
