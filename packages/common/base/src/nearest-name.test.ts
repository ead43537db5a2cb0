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
  { name: "x".repeat(65), names: ["x".repeat(66)], want: undefined },
])("of $names the nearest to $name is $want", ({ name, names, want }) => {
  expect(nearestName(name, names)).toBe(want);
});
