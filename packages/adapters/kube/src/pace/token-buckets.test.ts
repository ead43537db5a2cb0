// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createTokenBuckets } from "./token-buckets.ts";

test("a bucket gives a burst, then one in a while, each key for itself", async () => {
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

test("the key that took longest ago is forgotten when there are too many", () => {
  const buckets = createTokenBuckets(createFakeClock(), { burst: 1, refillMs: 1000 });
  for (let i = 0; i < 10_000; i += 1) buckets.take(`key ${String(i)}`);
  expect([buckets.has("key 0"), buckets.has("key 9999")]).toEqual([false, false]);
  buckets.take("one more");
  expect([buckets.has("key 0"), buckets.has("key 1")]).toEqual([true, false]);
});
