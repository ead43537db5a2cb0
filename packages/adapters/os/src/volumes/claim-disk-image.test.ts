// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { computeFileBytes, formatArguments } from "./claim-disk.ts";

const MEBIBYTE = 2 ** 20;
const GIBIBYTE = 2 ** 30;

test.each([
  { size: { kind: "device", sizeBytes: 1 }, want: 4096 },
  { size: { kind: "device", sizeBytes: GIBIBYTE }, want: GIBIBYTE },
  { size: { kind: "files", sizeBytes: 1 }, want: 12 * MEBIBYTE },
] as const)("the file for $size.kind with $size.sizeBytes bytes has $want", ({ size, want }) => {
  expect(computeFileBytes(size)).toBe(want);
});

test.each([
  { mebibytes: 1, journal: 4 },
  { mebibytes: 127, journal: 4 },
  { mebibytes: 128, journal: 16 },
  { mebibytes: 1023, journal: 16 },
  { mebibytes: 1024, journal: 64 },
  { mebibytes: 10_240, journal: 64 },
])("a file system of $mebibytes MiB has a journal of $journal MiB", ({ mebibytes, journal }) => {
  const size = { kind: "files", sizeBytes: mebibytes * MEBIBYTE } as const;
  expect(formatArguments(size).join(" ")).toBe(
    "-q -F -t ext4 -b 4096 -i 16384 -I 256 -m 0 -O ^resize_inode" +
      ` -J size=${String(journal)} -E packed_meta_blocks=1,lazy_itable_init=1,lazy_journal_init=1,nodiscard`,
  );
  const needed = size.sizeBytes * (1 + 1 / 24) + (2 + journal) * MEBIBYTE;
  expect(computeFileBytes(size)).toBe(Math.max(12 * MEBIBYTE, Math.ceil(needed / 4096) * 4096));
});

test.each([
  { gibibytes: 1, want: 16_384 },
  { gibibytes: 256, want: 16_384 },
  { gibibytes: 300, want: 19_200 },
  { gibibytes: 1024, want: 65_536 },
  { gibibytes: 10_240, want: 65_536 },
])("a file system of $gibibytes GiB has an inode for $want bytes", ({ gibibytes, want }) => {
  const options = formatArguments({ kind: "files", sizeBytes: gibibytes * GIBIBYTE });
  expect(options[options.indexOf("-i") + 1]).toBe(String(want));
});
