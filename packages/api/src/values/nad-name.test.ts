// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseNadName } from "./nad-name.ts";

test.each([
  { text: "blue", want: { name: "blue" } },
  { text: "blue.v2", want: { name: "blue.v2" } },
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
])("%j names none", (text) => {
  expect(parseNadName(text)).toBeUndefined();
});
