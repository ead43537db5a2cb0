// SPDX-License-Identifier: Apache-2.0
// Is JSON that is nested too deep told from JSON that is only long?
import { expect, test } from "vitest";
import { isTooDeep } from "./depth.ts";

function nested(depth: number): string {
  return `${'{"a":['.repeat(depth / 2)}${"]}".repeat(depth / 2)}`;
}

test.each([
  { what: "1000 levels", text: nested(1000), want: false },
  { what: "1002 levels", text: nested(1002), want: true },
  { what: "many side by side", text: `[${"[],{},".repeat(2000)}1]`, want: false },
  { what: "brackets in a string", text: `"${'[{\\"'.repeat(1000)}"`, want: false },
  { what: "a string without an end", text: `"${"[".repeat(2000)}`, want: false },
])("$what: $want", ({ text, want }) => {
  expect(isTooDeep(text)).toBe(want);
});
