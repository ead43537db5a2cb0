// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseBytes } from "./quantity.ts";

test.each([
  { quantity: "1024", want: 1024 },
  { quantity: "1Ki", want: 1024 },
  { quantity: "1.5Mi", want: 1_572_864 },
  { quantity: "2G", want: 2_000_000_000 },
  { quantity: "", want: undefined },
  { quantity: "many", want: undefined },
  { quantity: undefined, want: undefined },
])("$quantity is $want bytes", ({ quantity, want }) => {
  expect(parseBytes(quantity)).toBe(want);
});
