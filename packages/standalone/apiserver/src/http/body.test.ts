// SPDX-License-Identifier: Apache-2.0
// Bodies of requests: expected length, type and form.
import { expect, test } from "vitest";
import { expectedBytes, parseObject, parseText } from "./body.ts";

const MOST = 3 * 1024 * 1024;

test.each([
  { headers: {}, want: 0 },
  { headers: { "content-length": "7" }, want: 7 },
  { headers: { "content-length": String(MOST + 1) }, want: MOST },
  { headers: { "content-length": "x" }, want: MOST },
  { headers: { "content-length": "1.5" }, want: MOST },
  { headers: { "content-length": "7", "transfer-encoding": "chunked" }, want: MOST },
])("expects $want bytes for a body with $headers", ({ headers, want }) => {
  expect(expectedBytes({ headers })).toBe(want);
});

test.each([
  { type: "", text: '{"a":1}' },
  { type: "application/json", text: '{"a":1}' },
  { type: "application/yaml", text: "a: 1" },
])("reads an object of type '$type'", ({ type, text }) => {
  expect(parseObject({ contentType: type, text })).toEqual({ a: 1 });
});

test.each([
  { type: "application/json", text: "a: 1", want: "json parse error" },
  { type: "application/json", text: "", want: "unexpected end of JSON input: the body is empty" },
  { type: "application/json", text: "[1]", want: "the body is not an object" },
  { type: "application/yaml", text: "a: [", want: "json parse error" },
  { type: "text/plain", text: "{}", want: "application/json, application/yaml" },
])("rejects '$text' of type $type", ({ type, text, want }) => {
  expect(() => parseObject({ contentType: type, text })).toThrow(want);
});

test.each(["application/yaml", "application/apply-patch+yaml"])("detects %s as YAML", (type) => {
  expect(parseText("a: {b: [c]}", type)).toEqual({ a: { b: ["c"] } });
});
