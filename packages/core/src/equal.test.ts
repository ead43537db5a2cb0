// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { covers } from "./equal.ts";

describe("what is stored covers what is wanted", () => {
  test.each([
    { name: "when it is the same", stored: { a: [1, { b: "x" }] }, wanted: { a: [1, { b: "x" }] } },
    {
      name: "with defaults and nulls beside it",
      stored: { a: [{ type: "Ready", lastProbeTime: null }], qosClass: "Burstable" },
      wanted: { a: [{ type: "Ready" }] },
    },
    { name: "where nothing is wanted", stored: {}, wanted: { a: undefined } },
  ])("$name", ({ stored, wanted }) => {
    expect(covers(stored, wanted)).toBe(true);
  });

  test.each([
    { name: "with another value", stored: { a: 1 }, wanted: { a: 2 } },
    { name: "without the member", stored: {}, wanted: { a: { b: 1 } } },
    { name: "with a longer list", stored: [1, 2], wanted: [1] },
    { name: "with a shorter list", stored: [1], wanted: [1, 2] },
    { name: "with a list for an object", stored: { a: ["x"] }, wanted: { a: { 0: "x" } } },
    { name: "where nothing is stored", stored: undefined, wanted: { a: 1 } },
  ])("not $name", ({ stored, wanted }) => {
    expect(covers(stored, wanted)).toBe(false);
  });
});
