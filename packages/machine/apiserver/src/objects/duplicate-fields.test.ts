// SPDX-License-Identifier: Apache-2.0
// Are fields found that a text has twice?
import fc from "fast-check";
import { expect, test } from "vitest";
import { duplicateFields } from "./duplicate-fields.ts";

test.each([
  { text: '{"a":1,"b":2}', want: [] },
  { text: '{"a":1,"a":2}', want: ["a"] },
  { text: '{"a":{"b":1,"c":[{"d":1},{"d":1,"d":2}]}}', want: ["a.c[1].d"] },
  { text: '{"a":{"b":1},"c":{"b":1}}', want: [] },
  { text: '{"a":"x,\\"a\\":","b":["a","a"]}', want: [] },
  { text: '{"a":1,"a":1,"a":1}', want: ["a", "a"] },
  { text: '{"\\u0061":1,"a":1}', want: ["a"] },
  { text: '[{"op":1,"op":2}]', want: ["[0].op"] },
  { text: "", want: [] },
])("$text has twice: $want", ({ text, want }) => {
  expect(duplicateFields(text)).toEqual(want);
});

test("what a printer made has nothing twice", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(duplicateFields(JSON.stringify(value))).toEqual([]);
    }),
  );
});
