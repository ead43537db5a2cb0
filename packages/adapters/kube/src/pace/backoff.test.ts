// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { describe, expect, test } from "vitest";
import { computeBackoffMs, createTokenBuckets, systemRandom } from "./backoff.ts";

const RANGE = { firstMs: 100, maxMs: 60_000, jitter: 0.5 };

describe("the delay after failures", () => {
  test.each([
    { failures: 1, random: 0, want: 100 },
    { failures: 2, random: 0, want: 200 },
    { failures: 4, random: 0, want: 800 },
    { failures: 11, random: 0, want: 60_000 },
    { failures: 10_000, random: 0, want: 60_000 },
    { failures: 1, random: 1, want: 50 },
    { failures: 2, random: 0.5, want: 150 },
    { failures: 11, random: 1, want: 30_000 },
  ])("after $failures failures with random value $random", ({ failures, random, want }) => {
    expect(computeBackoffMs(failures, RANGE, () => random)).toBe(want);
  });

  test("has no upper bound except the caller's", () => {
    const range = { firstMs: 1, maxMs: Number.POSITIVE_INFINITY, jitter: 0 };
    expect(computeBackoffMs(31, range, () => 1)).toBe(2 ** 30);
    expect(computeBackoffMs(10_000, range, () => 1)).toBe(2 ** 30);
  });
});

test("random values are from 0 to below 1 and vary", () => {
  const numbers = Array.from({ length: 100 }, systemRandom);
  expect(numbers.every((number) => number >= 0 && number < 1)).toBe(true);
  expect(new Set(numbers).size).toBeGreaterThan(90);
  expect(numbers.some((number) => number > 0.1)).toBe(true);
});

test("a bucket allows a burst, then one call per interval, separately for each key", async () => {
  const clock = createFakeClock();
  const buckets = createTokenBuckets(clock, { burst: 3, refillMs: 1000 });
  const take = (key: string): boolean => buckets.take(key);
  expect(["a", "a", "a", "a", "b"].map(take)).toEqual([true, true, true, false, true]);
  await clock.advance(999);
  expect(buckets.has("a")).toBe(false);
  await clock.advance(1);
  expect(["a", "a"].map(take)).toEqual([true, false]);
  buckets.forget("a");
  expect(["a", "a", "a", "a"].map(take)).toEqual([true, true, true, false]);
});

test("forgets the least recently used key at the limit", () => {
  const buckets = createTokenBuckets(createFakeClock(), { burst: 1, refillMs: 1000 });
  for (let i = 0; i < 10_000; i += 1) buckets.take(`key ${String(i)}`);
  expect([buckets.has("key 0"), buckets.has("key 9999")]).toEqual([false, false]);
  buckets.take("one more");
  expect([buckets.has("key 0"), buckets.has("key 1")]).toEqual([true, false]);
});
