// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { isJsonObject, parseJson, printGoJson } from "./json.ts";

describe("isObject", () => {
  test.each([
    { value: {}, is: true },
    { value: { a: null }, is: true },
    { value: [], is: false },
    { value: null, is: false },
    { value: undefined, is: false },
    { value: "{}", is: false },
    { value: 1, is: false },
  ])("$value: $is", ({ value, is }) => {
    expect(isJsonObject(value)).toBe(is);
  });
});

describe("parsing of JSON text", () => {
  test.each([
    { text: '{"a":[1]}', value: { a: [1] } },
    { text: "null", value: null },
    { text: undefined, value: undefined },
    { text: "", value: undefined },
    { text: "{", value: undefined },
  ])("parses $text as $value", ({ text, value }) => {
    expect(parseJson(text)).toEqual(value);
  });
});

describe("JSON in Go's encoding", () => {
  test.each([
    { value: "a->b <nil> & c", text: String.raw`"a-\u003eb \u003cnil\u003e \u0026 c"` },
    { value: "\u2028\u2029", text: String.raw`"\u2028\u2029"` },
    { value: { "<": ['"\\', 1, null] }, text: String.raw`{"\u003c":["\"\\",1,null]}` },
    { value: "ä/\u007f", text: '"ä/\u007f"' },
  ])("prints $value as $text", ({ value, text }) => {
    expect(printGoJson(value)).toBe(text);
    expect(parseJson(text)).toEqual(value);
  });
});
