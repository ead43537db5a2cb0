// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { nearestName } from "./nearest-name.ts";

test.each([
  { name: "bleu", names: ["red", "blue"], want: "blue" },
  { name: "blu", names: ["blue", "bla"], want: "bla" },
  { name: "storge", names: ["storage", "store"], want: "storage" },
  { name: "green", names: ["red", "blue"], want: undefined },
  { name: "a", names: ["b", "cd"], want: "b" },
  { name: "red", names: [], want: undefined },
  // One edit is allowed here: adjacent characters may be swapped, others may not.
  { name: "xab", names: ["xba"], want: "xba" },
  { name: "abx", names: ["bax"], want: "bax" },
  { name: "abc", names: ["cba"], want: undefined },
  { name: "xay", names: ["xbz"], want: undefined },
  { name: "x".repeat(64), names: ["x".repeat(63)], want: "x".repeat(63) },
  { name: "x".repeat(65), names: ["x".repeat(66)], want: undefined },
])("of $names the nearest to $name is $want", ({ name, names, want }) => {
  expect(nearestName(name, names)).toBe(want);
});
