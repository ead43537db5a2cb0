// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { hasRefused, pauseAfterRequest } from "./unplug-request.ts";

test("a guest is asked again after pauses that grow, up to a minute", () => {
  expect([1, 2, 3, 4, 5, 6, 1000].map(pauseAfterRequest)).toEqual([
    10_000, 10_000, 20_000, 40_000, 60_000, 60_000, 60_000,
  ]);
});

test.each([
  { name: "asked once", count: 1, isRefused: false, want: false },
  {
    name: "asked twice: the first request may have been lost",
    count: 2,
    isRefused: false,
    want: false,
  },
  { name: "asked three times", count: 3, isRefused: false, want: true },
  { name: "asked once, which failed", count: 1, isRefused: true, want: true },
])("a guest that was $name keeps the device: $want", ({ count, isRefused, want }) => {
  expect(hasRefused({ count, isRefused })).toBe(want);
});
