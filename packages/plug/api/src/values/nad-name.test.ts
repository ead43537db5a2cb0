// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseNadName } from "./nad-name.ts";

test.each([
  { text: "blue", want: { name: "blue" } },
  { text: "blue.v2", want: { name: "blue.v2" } },
  { text: `a${".a".repeat(126)}`, want: { name: `a${".a".repeat(126)}` } },
  {
    text: `${"n".repeat(63)}/blue`,
    want: { namespace: "n".repeat(63), name: "blue" },
  },
  { text: "ns1/blue.v2", want: { namespace: "ns1", name: "blue.v2" } },
])("$text names a definition", ({ text, want }) => {
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
])("%j names none", (text) => {
  expect(parseNadName(text)).toBeUndefined();
});
