// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { GrowthTracker } from "./growth.ts";

const MINUTE = 60_000;

function updateSizes(
  marks: GrowthTracker,
  sizes: Readonly<Record<string, number>>,
  minute: number,
): object {
  return Object.fromEntries(marks.updateSizes(new Map(Object.entries(sizes)), minute * MINUTE));
}

test("existing data has not grown, and new data has grown from zero", () => {
  const marks = new GrowthTracker();
  expect(updateSizes(marks, { old: 50 }, 0)).toEqual({ old: 0 });
  expect(updateSizes(marks, { old: 55, made: 7 }, 1)).toEqual({ old: 5, made: 7 });
});

test("counts the growth of the last half to whole hour", () => {
  const marks = new GrowthTracker();
  updateSizes(marks, { a: 0 }, 0);
  expect(updateSizes(marks, { a: 10 }, 29)).toEqual({ a: 10 });
  expect(updateSizes(marks, { a: 20 }, 31)).toEqual({ a: 20 });
  expect(updateSizes(marks, { a: 25 }, 62)).toEqual({ a: 5 });
  expect(updateSizes(marks, { a: 25 }, 93)).toEqual({ a: 0 });
});

test("freed space does not offset new growth", () => {
  const marks = new GrowthTracker();
  updateSizes(marks, { a: 50 }, 0);
  expect(updateSizes(marks, { a: 10 }, 1)).toEqual({ a: 0 });
  expect(updateSizes(marks, { a: 40 }, 2)).toEqual({ a: 30 });
});

test("counts growth from the last reset", () => {
  const marks = new GrowthTracker();
  updateSizes(marks, { a: 0 }, 0);
  updateSizes(marks, { a: 30 }, 1);
  marks.resetGrowth("a");
  marks.resetGrowth("unknown");
  expect(updateSizes(marks, { a: 35 }, 2)).toEqual({ a: 5 });
});
