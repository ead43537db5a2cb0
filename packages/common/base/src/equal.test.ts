// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { covers, isEqual } from "./equal.ts";

describe("the stored value covers the wanted one", () => {
  test.each([
    { name: "when they are equal", stored: { a: [1, { b: "x" }] }, wanted: { a: [1, { b: "x" }] } },
    {
      name: "with defaults and nulls beside them",
      stored: { a: [{ type: "Ready", lastProbeTime: null }], qosClass: "Burstable" },
      wanted: { a: [{ type: "Ready" }] },
    },
    { name: "where no value is wanted", stored: {}, wanted: { a: undefined } },
  ])("$name", ({ stored, wanted }) => {
    expect(covers(stored, wanted)).toBe(true);
  });

  test.each([
    { name: "with another value", stored: { a: 1 }, wanted: { a: 2 } },
    { name: "without the member", stored: {}, wanted: { a: { b: 1 } } },
    { name: "with a longer list", stored: [1, 2], wanted: [1] },
    { name: "with a shorter list", stored: [1], wanted: [1, 2] },
    { name: "with a list instead of an object", stored: { a: ["x"] }, wanted: { a: { 0: "x" } } },
    { name: "where no value is stored", stored: undefined, wanted: { a: 1 } },
    { name: "where null is stored", stored: { a: null }, wanted: { a: {} } },
    { name: "where one of two members differs", stored: { a: 1, b: 2 }, wanted: { a: 1, b: 3 } },
    { name: "where one list entry differs", stored: [1, 2], wanted: [1, 3] },
  ])("not $name", ({ stored, wanted }) => {
    expect(covers(stored, wanted)).toBe(false);
  });
});

describe("two values are equal", () => {
  test.each([
    {
      name: "when all members are equal",
      left: { a: [1, { b: null }] },
      right: { a: [1, { b: null }] },
    },
    { name: "in a different member order", left: { a: 1, b: 2 }, right: { b: 2, a: 1 } },
    { name: "where a member is undefined", left: { a: undefined }, right: {} },
  ])("$name", ({ left, right }) => {
    expect(isEqual(left, right)).toBe(true);
  });

  test.each([
    { name: "in a different list order", left: [1, 2], right: [2, 1] },
    { name: "when only one is a list", left: [], right: {} },
    { name: "when only one is null", left: null, right: {} },
    { name: "with one additional member", left: { a: 1 }, right: { a: 1, b: 2 } },
    { name: "when a member is undefined in only one", left: { a: 1 }, right: { a: undefined } },
    { name: "of different types", left: 1, right: "1" },
  ])("not $name", ({ left, right }) => {
    expect(isEqual(left, right)).toBe(false);
    expect(isEqual(right, left)).toBe(false);
  });
});
