// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { indentLines, escapeLine, safeOutput } from "./safe.ts";

test.each([
  { name: "a title that is set", text: "a\u001b]0;b\u0007", want: String.raw`a\u001b]0;b\u0007` },
  { name: "the 8-bit form of it", text: "a\u009b2J", want: String.raw`a\u009b2J` },
  { name: "a return of the carriage", text: "a\rb", want: String.raw`a\u000db` },
  { name: "a turned line", text: "a\u202eb\u2066", want: String.raw`a\u202eb\u2066` },
  { name: "a false end of a line", text: "a\u2028b", want: String.raw`a\u2028b` },
  { name: "what people write", text: "a\tß 日本\n", want: "a\tß 日本\n" },
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
