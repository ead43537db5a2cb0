// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, test } from "vitest";
import { SEED } from "./seed.ts";

const draw = (seed?: number): readonly number[] =>
  fc.sample(fc.integer(), { numRuns: 20, ...(seed === undefined ? {} : { seed }) });

test("a property without its own seed uses the fixed seed", () => {
  expect(draw()).toEqual(draw(SEED));
  expect(draw()).not.toEqual(draw(SEED + 1));
});
