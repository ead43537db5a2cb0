// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { GrowthMarks } from "./growth.ts";

const MINUTE = 60_000;

function take(marks: GrowthMarks, held: Readonly<Record<string, number>>, minute: number): object {
  return Object.fromEntries(marks.take(new Map(Object.entries(held)), minute * MINUTE));
}

test("what was there at first has not grown, and what is new has grown from nothing", () => {
  const marks = new GrowthMarks();
  expect(take(marks, { old: 50 }, 0)).toEqual({ old: 0 });
  expect(take(marks, { old: 55, made: 7 }, 1)).toEqual({ old: 5, made: 7 });
});

test("growth is that of the last half to whole hour", () => {
  const marks = new GrowthMarks();
  take(marks, { a: 0 }, 0);
  expect(take(marks, { a: 10 }, 29)).toEqual({ a: 10 });
  expect(take(marks, { a: 20 }, 31)).toEqual({ a: 20 });
  expect(take(marks, { a: 25 }, 62)).toEqual({ a: 5 });
  expect(take(marks, { a: 25 }, 93)).toEqual({ a: 0 });
});

test("what was given back may not be written again for nothing", () => {
  const marks = new GrowthMarks();
  take(marks, { a: 50 }, 0);
  expect(take(marks, { a: 10 }, 1)).toEqual({ a: 0 });
  expect(take(marks, { a: 40 }, 2)).toEqual({ a: 30 });
});

test("what was forgiven is counted from then", () => {
  const marks = new GrowthMarks();
  take(marks, { a: 0 }, 0);
  take(marks, { a: 30 }, 1);
  marks.forgive("a");
  marks.forgive("unknown");
  expect(take(marks, { a: 35 }, 2)).toEqual({ a: 5 });
});
