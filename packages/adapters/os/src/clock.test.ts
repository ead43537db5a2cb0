// SPDX-License-Identifier: Apache-2.0
import { getEventListeners } from "node:events";
import { describeClockContract } from "@patchbay/os/testing";
import { afterEach, expect, test, vi } from "vitest";
import { createClock } from "./clock.ts";

afterEach(() => {
  vi.useRealTimers();
});

describeClockContract("the machine", () => {
  const clock = createClock();
  return { clock, pass: (ms) => clock.sleep(ms, new AbortController().signal) };
});

test("the wall time is in milliseconds since 1970", () => {
  vi.useFakeTimers({ now: 1_700_000_000_123, toFake: ["Date"] });
  expect(createClock().now()).toBe(1_700_000_000_123);
});

test("a sleep that has ended leaves neither a timer nor a listener", async () => {
  vi.useFakeTimers();
  const stop = new AbortController();
  const over = createClock().sleep(1000, stop.signal);
  vi.advanceTimersByTime(1000);
  await over;
  expect(getEventListeners(stop.signal, "abort")).toEqual([]);
  const aborted = createClock().sleep(1000, stop.signal);
  stop.abort(new Error("stopped"));
  await expect(aborted).rejects.toThrow("stopped");
  expect(vi.getTimerCount()).toBe(0);
});
