// SPDX-License-Identifier: Apache-2.0
// Is JSON that is nested too deep, or that holds too much, told from JSON that is only long?
import { expect, test } from "vitest";
import { extentFault } from "./extent.ts";

function nested(depth: number): string {
  return `${'{"a":['.repeat(depth / 2)}${"]}".repeat(depth / 2)}`;
}

test.each([
  { what: "1000 levels", text: nested(1000), want: undefined },
  { what: "1002 levels", text: nested(1002), want: "deep" },
  { what: "many side by side", text: `[${"[],{},".repeat(2000)}1]`, want: undefined },
  { what: "brackets in a string", text: `"${'[{\\"'.repeat(1000)}"`, want: undefined },
  { what: "commas in strings", text: `["${",".repeat(40_000)}"]`, want: undefined },
  {
    what: "a quote behind two backslashes",
    text: `["\\\\",${"1,".repeat(40_000)}1]`,
    want: "many",
  },
  {
    what: "a quote after three backslashes",
    text: `["\\\\\\"${"1,".repeat(40_000)}"]`,
    want: undefined,
  },
  { what: "an unterminated string", text: `"${"[".repeat(2000)}`, want: undefined },
  { what: "nearly too many numbers", text: `[${"1,".repeat(32_766)}1]`, want: undefined },
  { what: "too many empty lists", text: `[${"[],".repeat(32_000)}1]`, want: "many" },
])("$what: $want", ({ text, want }) => {
  expect(extentFault(text)).toBe(want);
});
