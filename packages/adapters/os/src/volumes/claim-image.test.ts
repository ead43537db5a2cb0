// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { fileBytesOf } from "./claim-image.ts";

const MEBIBYTE = 2 ** 20;
const GIBIBYTE = 2 ** 30;

test.each([
  { size: { kind: "device", sizeBytes: 1 }, want: 4096 },
  { size: { kind: "device", sizeBytes: GIBIBYTE }, want: GIBIBYTE },
  { size: { kind: "files", sizeBytes: 1 }, want: 12 * MEBIBYTE },
] as const)("the file of $size.kind of $size.sizeBytes bytes has $want", ({ size, want }) => {
  expect(fileBytesOf(size)).toBe(want);
});
