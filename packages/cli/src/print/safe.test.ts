// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { indentLines, escapeLine, safeOutput } from "./safe.ts";

test.each([
  {
    name: "an escaped sequence that sets the title",
    text: "a\u001b]0;b\u0007",
    want: String.raw`a\u001b]0;b\u0007`,
  },
  { name: "an escaped 8-bit control sequence", text: "a\u009b2J", want: String.raw`a\u009b2J` },
  { name: "an escaped carriage return", text: "a\rb", want: String.raw`a\u000db` },
  {
    name: "escaped bidirectional controls",
    text: "a\u202eb\u2066",
    want: String.raw`a\u202eb\u2066`,
  },
  { name: "an escaped Unicode line separator", text: "a\u2028b", want: String.raw`a\u2028b` },
  { name: "ordinary text unchanged", text: "a\tß 日本\n", want: "a\tß 日本\n" },
])("a stream shows $name", ({ text, want }) => {
  const shown: string[] = [];
  safeOutput({ write: (part) => shown.push(part) }).write(text);
  expect(shown).toEqual([want]);
});

test("escapeLine escapes line ends", () => {
  expect(escapeLine("a\nb\tc\u001b")).toBe(String.raw`a\nb\tc\u001b`);
});

test("JSON stays parseable with the same value", () => {
  const data = { name: "a\u009b\u202e" };
  const shown: string[] = [];
  safeOutput({ write: (part) => shown.push(part) }).write(JSON.stringify(data));
  expect(JSON.parse(shown.join(""))).toEqual(data);
});

test("indentLines indents all lines after the first", () => {
  expect(indentLines("a\nhint: b", "  ")).toBe("a\n  hint: b");
});
