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

test("a list is a list, and everything else an empty one", () => {
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
])("what stands at $path is $want", ({ path, want }) => {
  const value = { a: { b: "c", n: 5 } };
  expect(valueAt(value, ...path)).toEqual(want);
  expect(textAt(value, ...path)).toBe(typeof want === "string" ? want : "");
});

test("an object without some of its fields", () => {
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
])("$value is shown as $want", ({ value, want }) => {
  expect(asText(value)).toBe(want);
});

test("a copy shares nothing, lacks what is undefined, and keeps every key", () => {
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

test("a field with any name can be set and changed", () => {
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
])("$text is read as $want", ({ text, want }) => {
  expect(parseJson(text)).toEqual(want);
});

test.each([
  { text: '"a\\u003cb"', want: "a<b" },
  { text: '"a<b"', want: NaN },
  { text: "1.0", want: NaN },
  { text: "[1,true,null]", want: [1, true, null] },
])("what is written $text is compared as $want", ({ text, want }) => {
  expect(parseCanonical(text)).toEqual(want);
});

test("text for people is indented", () => {
  expect(printJson({ a: 1 }, 2)).toBe('{\n  "a": 1\n}');
  expect(printJson({ a: BIG }, 2)).toBe(`{\n  "a": ${String(BIG)}\n}`);
});

test("what cannot be printed is refused", () => {
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
])("$value is an object of a kind: $want", ({ value, want }) => {
  expect(isKubeObject(value)).toBe(want);
});

test.each([
  { address: { bucket: "x.io/as", namespace: "n", name: "a" }, text: "x.io/as/n/a" },
  { address: { bucket: "/nodes", namespace: "", name: "a" }, text: "/nodes//a" },
])("the address $text", ({ address, text }) => {
  expect(printAddress(address)).toBe(text);
  expect(parseAddress(text)).toEqual(address);
});

test("times have seconds", () => {
  expect(rfc3339(1_704_067_260_999)).toBe("2024-01-01T00:01:00Z");
  expect(parseTime("2024-01-01T00:01:00Z")).toBe(1_704_067_260_000);
  expect(parseTime("noon")).toBeNaN();
});
