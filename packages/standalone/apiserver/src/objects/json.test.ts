// SPDX-License-Identifier: Apache-2.0
// Does JSON survive reading and writing?
import fc from "fast-check";
import { expect, test } from "vitest";
import { equalJson, parseJson, printJson } from "./json.ts";

test.each([
  '{"a":9007199254740993}',
  '{"a":[-9223372036854775808,1.5,"12345678901234567890"]}',
  '[9223372036854775807,{"b":{}},null]',
])("%s survives exactly", (text) => {
  expect(printJson(parseJson(text))).toBe(text);
});

test.each([400, 1_000_000])("rejects a number with %i digits", (digits) => {
  expect(() => parseJson(`[-${"9".repeat(digits)}]`)).toThrow(SyntaxError);
});

test("parses its own output", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const printed = printJson(value);
      expect(printJson(parseJson(printed))).toBe(printed);
    }),
  );
});

test.each([
  { left: { a: 1, b: 2 }, right: { b: 2, a: 1 }, want: true },
  { left: { a: undefined }, right: {}, want: false },
  { left: [1, 2], right: [2, 1], want: false },
  { left: {}, right: [], want: false },
  { left: null, right: {}, want: false },
  { left: 2n ** 60n, right: 2n ** 60n, want: true },
])("$left equals $right: $want", ({ left, right, want }) => {
  expect(equalJson(left, right)).toBe(want);
});
