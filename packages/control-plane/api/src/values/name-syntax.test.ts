// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseNadName, isLinkName } from "./name-syntax.ts";

test.each([
  { text: "blue", want: { name: "blue" } },
  { text: "blue.v2", want: { name: "blue.v2" } },
  { text: `a${".a".repeat(126)}`, want: { name: `a${".a".repeat(126)}` } },
  {
    text: `${"n".repeat(63)}/blue`,
    want: { namespace: "n".repeat(63), name: "blue" },
  },
  { text: "ns1/blue.v2", want: { namespace: "ns1", name: "blue.v2" } },
])("$text is the name of a definition", ({ text, want }) => {
  expect(parseNadName(text)).toEqual(want);
});

test.each([
  "",
  "/",
  "a/",
  "/a",
  "a.b/blue",
  "a/b/c",
  "Blue",
  "blue.",
  ".blue",
  `${"a".repeat(64)}/b`,
  `aa${".a".repeat(126)}`,
])("%j is not the name of a definition", (text) => {
  expect(parseNadName(text)).toBeUndefined();
});

// Bytes of each character: a 1, \u07ff 2, \u0800 and \uffff 3, \u{10000} 4.
test.each([
  { name: "net1", is: true },
  { name: "a".repeat(15), is: true },
  { name: "a".repeat(16), is: false },
  { name: `\u07ff${"a".repeat(13)}`, is: true },
  { name: `\u07ff${"a".repeat(14)}`, is: false },
  { name: `\u0800${"a".repeat(12)}`, is: true },
  { name: `\u0800${"a".repeat(13)}`, is: false },
  { name: `\uffff${"a".repeat(12)}`, is: true },
  { name: `\u{10000}${"a".repeat(11)}`, is: true },
  { name: `\u{10000}${"a".repeat(12)}`, is: false },
  { name: "", is: false },
  { name: ".", is: false },
  { name: "..", is: false },
  { name: "...", is: true },
  { name: "a b", is: false },
  { name: "a/b", is: false },
  { name: "a:b", is: false },
  { name: "a\u0007b", is: false },
  { name: "a\ud800b", is: false },
])("$name is a valid link name: $is", ({ name, is }) => {
  expect(isLinkName(name)).toBe(is);
});
