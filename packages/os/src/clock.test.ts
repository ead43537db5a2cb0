// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { createClock } from "./clock.ts";

describe("the clock", () => {
  test("sleeps at least as long as it is told to", async () => {
    const clock = createClock();
    const start = clock.monotonicMs();
    await clock.sleep(20, new AbortController().signal);
    expect(clock.monotonicMs() - start).toBeGreaterThanOrEqual(19);
  });

  test("an aborted sleep rejects with the reason at once", async () => {
    const clock = createClock();
    const abort = new AbortController();
    const sleep = clock.sleep(60_000, abort.signal);
    abort.abort(new Error("stop"));
    await expect(sleep).rejects.toThrow("stop");
  });

  test("a sleep on an aborted signal rejects", async () => {
    const aborted = AbortSignal.abort(new Error("stopped before"));
    await expect(createClock().sleep(0, aborted)).rejects.toThrow("stopped before");
  });

  test("tells wall time in milliseconds", () => {
    expect(Math.abs(createClock().now() - Date.now())).toBeLessThan(1000);
  });
});
