// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { joinedBytes } from "./joined-bytes.ts";

const bytes = (...values: readonly number[]): Uint8Array => Uint8Array.from(values);

test.each([
  { name: "no parts", parts: [], want: bytes() },
  { name: "one part", parts: [bytes(1, 2)], want: bytes(1, 2) },
  {
    name: "parts in order, with empty parts",
    parts: [bytes(1), bytes(), bytes(2, 3), bytes(4)],
    want: bytes(1, 2, 3, 4),
  },
])("joins $name", ({ parts, want }) => {
  expect(joinedBytes(parts)).toEqual(want);
});
