// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { pauseAfterRequest } from "./unplug-request.ts";

test("a guest is asked again after pauses that grow, up to a minute", () => {
  expect([1, 2, 3, 4, 5, 6, 1000].map(pauseAfterRequest)).toEqual([
    10_000, 10_000, 20_000, 40_000, 60_000, 60_000, 60_000,
  ]);
});
