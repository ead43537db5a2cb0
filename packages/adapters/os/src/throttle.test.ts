// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Throttle } from "./throttle.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** The waits after so many changes in a row. */
function waits(throttle: Throttle, count: number): readonly number[] {
  return Array.from({ length: count }, () => throttle.nextMs());
}

test("ten delays are short, and later ones as long as after a failed watch", () => {
  const throttle = new Throttle();
  expect(waits(throttle, 12)).toEqual([...Array.from({ length: 10 }, () => 50), 1000, 1000]);
  expect(throttle.longMs).toBe(1000);
});

test("each second without a change allows one more short delay, up to ten", () => {
  const throttle = new Throttle();
  waits(throttle, 10);
  vi.advanceTimersByTime(2000);
  expect(waits(throttle, 3)).toEqual([50, 50, 1000]);
  vi.advanceTimersByTime(999);
  expect(waits(throttle, 1)).toEqual([1000]);
  vi.advanceTimersByTime(1);
  expect(waits(throttle, 2)).toEqual([50, 1000]);
  vi.advanceTimersByTime(60_000);
  expect(waits(throttle, 11).slice(-2)).toEqual([50, 1000]);
});
