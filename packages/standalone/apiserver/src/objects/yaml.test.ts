// SPDX-License-Identifier: Apache-2.0
// Which YAML is read, and which would take too long?
import { expect, test } from "vitest";
import { isTooLong, parseYaml, printYaml } from "./yaml.ts";

const NESTED = `${"[".repeat(50)}${"]".repeat(50)}`;

test.each([
  {
    what: "fields and lists",
    text: "a: 1\nb: [x, {c: true}]\n",
    want: { a: 1, b: ["x", { c: true }] },
  },
  { what: "a number as a key", text: "1: x", want: { 1: "x" } },
  { what: "a block scalar", text: "a: |\n  b\n  c\n", want: { a: "b\nc\n" } },
  { what: "an alias", text: "a: &x {b: 1}\nc: *x", want: { a: { b: 1 }, c: { b: 1 } } },
  { what: "50 levels", text: NESTED, want: JSON.parse(NESTED) as unknown },
  { what: "nothing", text: "", want: null },
])("reads $what", ({ text, want }) => {
  expect(parseYaml(text)).toEqual(want);
});

test.each([
  { what: "invalid YAML", text: "a: [" },
  { what: "a key twice", text: "a: 1\na: 2" },
  { what: "a key twice in a list's map", text: 'a: [{b: 1, c: 2, "b": 3}]' },
  { what: "two documents", text: "a: 1\n---\nb: 2" },
  { what: "a key that is not a string", text: "? [a]\n: 1" },
  { what: "too many levels of brackets", text: `${"[".repeat(200)}${"]".repeat(200)}` },
  { what: "too many levels of indentation", text: "- ".repeat(200) },
  { what: "nested complex keys", text: "? ".repeat(200) },
  { what: "eleven aliases of the same anchor", text: `a: &x [b]\nc: [${"*x, ".repeat(11)}]` },
])("rejects $what", ({ text }) => {
  expect(() => parseYaml(text)).toThrow(Error);
});

test.each([
  { what: "a long text", text: "x".repeat(60_000), want: false },
  { what: "too long a text", text: "x".repeat(70_000), want: true },
  ...[
    "\n",
    "a: b\n",
    ",",
    "[",
    "]",
    "{",
    "}",
    "&a ",
    "*a ",
    "!a ",
    "? ",
    "- ",
    '"',
    "'",
    "\\x",
    "|\n",
  ].map((unit) => ({
    what: `2,000 times ${JSON.stringify(unit)}`,
    text: unit.repeat(2000),
    want: true,
  })),
  { what: "200 lines", text: "  key: value\n".repeat(200), want: false },
])("$what is too long: $want", ({ text, want }) => {
  expect(isTooLong(text)).toBe(want);
});

test.each([
  { what: "a small object", json: '{"a":[1]}', want: "a:\n  - 1\n" },
  {
    what: "a deeply nested object",
    json: `${"[".repeat(300)}${"]".repeat(300)}`,
    want: "[".repeat(300),
  },
  { what: "a long object", json: JSON.stringify("x".repeat(70_000)), want: '"xxx' },
])("prints $what as YAML", ({ json, want }) => {
  expect(printYaml(json).startsWith(want)).toBe(true);
});
