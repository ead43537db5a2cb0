// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseBytes, parseQuantity } from "./quantity.ts";

test.each([
  ["128Mi", 134_217_728],
  ["64M", 64_000_000],
  ["1.5Gi", 1_610_612_736],
  [".5Ki", 512],
  ["1e3", 1000],
  ["12E2", 1200],
  ["1E", 1e18],
  ["2Pi", 2 ** 51],
  ["1500m", 1.5],
  [1024, 1024],
  ["+5", 5],
])("%j is %d", (input, want) => {
  expect(parseQuantity(input)).toBeCloseTo(want);
});

test.each(["12Gx", "", "Mi", "12 Mi", "-1", "1ee3", "0x10", undefined, {}])(
  "rejects %j",
  (input) => {
    expect(parseQuantity(input)).toBeUndefined();
  },
);

test.each([
  ["1.1M", 1_100_000],
  ["0.3k", 300],
  [42, 42],
  ["1500m", 1.5],
  ["many", undefined],
])("%j is %d bytes", (input, want) => {
  expect(parseBytes(input)).toBe(want);
});
