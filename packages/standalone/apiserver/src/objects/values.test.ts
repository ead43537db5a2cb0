// SPDX-License-Identifier: Apache-2.0
// Small tools for JSON values, addresses and times.
import { expect, test } from "vitest";
import {
  asText,
  copyJson,
  equalJson,
  asFields,
  isFields,
  asList,
  parseCanonical,
  parseJson,
  printJson,
  setField,
  textAt,
  valueAt,
  without,
} from "./json.ts";
import { isKubeObject, parseAddress, printAddress } from "./object.ts";
import { parseTime, rfc3339 } from "./time.ts";

const BIG = 2n ** 60n;

test.each([
  { value: null, isObject: false },
  { value: [], isObject: false },
  { value: "a", isObject: false },
  { value: undefined, isObject: false },
  { value: {}, isObject: true },
])("$value is an object: $isObject", ({ value, isObject }) => {
  expect(isFields(value)).toBe(isObject);
  expect(asFields(value)).toEqual({});
  expect(asFields(value) === value).toBe(isObject);
});

test("returns a list unchanged, and an empty list for any other value", () => {
  const list = [1];
  expect(asList(list)).toBe(list);
  expect(["a", {}, null, undefined].map(asList)).toEqual([[], [], [], []]);
});

test.each([
  { path: [], want: { a: { b: "c", n: 5 } } },
  { path: ["a", "b"], want: "c" },
  { path: ["a", "n"], want: 5 },
  { path: ["a", "b", "c"], want: undefined },
  { path: ["a", "toString"], want: undefined },
  { path: ["x", "y"], want: undefined },
])("the value at $path is $want", ({ path, want }) => {
  const value = { a: { b: "c", n: 5 } };
  expect(valueAt(value, ...path)).toEqual(want);
  expect(textAt(value, ...path)).toBe(typeof want === "string" ? want : "");
});

test("removes fields in a copy of the object", () => {
  const fields = { a: 1, b: 2, c: 3 };
  expect(without(fields, "a", "c", "d")).toEqual({ b: 2 });
  expect(fields).toEqual({ a: 1, b: 2, c: 3 });
});

test.each([
  { value: "a", want: "a" },
  { value: undefined, want: "" },
  { value: null, want: "" },
  { value: 0, want: "0" },
  { value: { a: BIG }, want: `{"a":${String(BIG)}}` },
])("prints $value as $want", ({ value, want }) => {
  expect(asText(value)).toBe(want);
});

test("a copy shares nothing, omits undefined fields, and preserves every key", () => {
  const given = parseJson('{"__proto__":{"a":1},"l":[{"b":null}],"s":"x"}') as Record<
    string,
    unknown
  >;
  const copy: Record<string, unknown> = copyJson({ ...given, none: undefined, big: BIG });
  expect(printJson(copy)).toBe(
    `{"__proto__":{"a":1},"l":[{"b":null}],"s":"x","big":${String(BIG)}}`,
  );
  expect(copy["l"]).toEqual(given["l"]);
  expect(copy["l"]).not.toBe(given["l"]);
});

test("sets and changes a field with any name", () => {
  const fields: Record<string, unknown> = {};
  setField(fields, "__proto__", 1);
  setField(fields, "__proto__", 2);
  setField(fields, "a", 3);
  expect(Object.entries(fields)).toEqual([
    ["__proto__", 2],
    ["a", 3],
  ]);
  expect(Reflect.deleteProperty(fields, "__proto__")).toBe(true);
});

test.each([
  { left: 1, right: 1, want: true },
  { left: "1", right: 1, want: false },
  { left: [1, [2]], right: [1, [2]], want: true },
  { left: [1], right: [1, 2], want: false },
  { left: [], right: {}, want: false },
  { left: { a: [1] }, right: { a: [2] }, want: false },
  { left: { a: 1 }, right: { a: 1, b: 1 }, want: false },
  { left: { a: 1, b: 1 }, right: { a: 1, c: 1 }, want: false },
  { left: {}, right: null, want: false },
  { left: "a", right: {}, want: false },
])("$left is equal to $right: $want", ({ left, right, want }) => {
  expect(equalJson(left, right)).toBe(want);
});

test.each([
  { text: "1", want: 1 },
  { text: "1234567890123456", want: 1_234_567_890_123_456 },
  { text: "-9007199254740993", want: -9_007_199_254_740_993n },
  { text: "[ 9007199254740993]", want: [9_007_199_254_740_993n] },
  { text: "9007199254740993.5", want: 9_007_199_254_740_994 },
  { text: '"12345678901234567890"', want: "12345678901234567890" },
])("parses $text as $want", ({ text, want }) => {
  expect(parseJson(text)).toEqual(want);
});

test.each([
  { text: '"a\\u003cb"', want: "a<b" },
  { text: '"a<b"', want: NaN },
  { text: "1.0", want: NaN },
  { text: "[1,true,null]", want: [1, true, null] },
])("canonicalizes $text as $want for comparison", ({ text, want }) => {
  expect(parseCanonical(text)).toEqual(want);
});

test("indents pretty-printed text", () => {
  expect(printJson({ a: 1 }, 2)).toBe('{\n  "a": 1\n}');
  expect(printJson({ a: BIG }, 2)).toBe(`{\n  "a": ${String(BIG)}\n}`);
});

test("rejects a value that cannot be printed", () => {
  const broken = {
    toJSON: () => {
      throw new RangeError("broken");
    },
  };
  expect(() => printJson(broken)).toThrow(RangeError);
});

test.each([
  { value: { metadata: {} }, want: true },
  { value: { metadata: [] }, want: false },
  { value: {}, want: false },
  { value: null, want: false },
])("$value is a Kubernetes object: $want", ({ value, want }) => {
  expect(isKubeObject(value)).toBe(want);
});

test.each([
  { address: { bucket: "x.io/as", namespace: "n", name: "a" }, text: "x.io/as/n/a" },
  { address: { bucket: "/nodes", namespace: "", name: "a" }, text: "/nodes//a" },
])("the address $text", ({ address, text }) => {
  expect(printAddress(address)).toBe(text);
  expect(parseAddress(text)).toEqual(address);
});

test("prints times with a precision of seconds", () => {
  expect(rfc3339(1_704_067_260_999)).toBe("2024-01-01T00:01:00Z");
  expect(parseTime("2024-01-01T00:01:00Z")).toBe(1_704_067_260_000);
  expect(parseTime("noon")).toBeNaN();
});
