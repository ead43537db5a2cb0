// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { isLowForImages, pullsToStop } from "./pull-limits.ts";

const GIBIBYTE = 2 ** 30;

interface Case {
  readonly name: string;
  /** GiB. */
  readonly disk: readonly [size: number, free: number];
  readonly unpacked: Readonly<Record<string, number>>;
  readonly want: Readonly<Record<string, string>>;
}

const FULL = "the node's disk is nearly full: 1.5Gi of 100Gi are left";

test.each<Case>([
  {
    name: "goes on up to a quarter of the disk",
    disk: [8, 4],
    unpacked: { a: 2 },
    want: {},
  },
  {
    name: "is stopped above it, and no other",
    disk: [8, 4],
    unpacked: { a: 2.1, b: 1 },
    want: { a: "it unpacks to more than 2Gi, a quarter of the node's disk of 8Gi" },
  },
  {
    name: "that is the largest is stopped while the disk gets full",
    disk: [100, 1.5],
    unpacked: { a: 1, b: 2, c: 0 },
    want: { b: FULL },
  },
  {
    name: "is stopped with all others where nobody knows which is the largest",
    disk: [100, 1.5],
    unpacked: { a: 0, b: 0 },
    want: { a: FULL, b: FULL },
  },
])("a pull $name", ({ disk: [size, free], unpacked, want }) => {
  const bytes = Object.entries(unpacked).map(
    ([name, amount]) => [name, amount * GIBIBYTE] as const,
  );
  const disk = { sizeBytes: size * GIBIBYTE, freeBytes: free * GIBIBYTE };
  expect(Object.fromEntries(pullsToStop(new Map(bytes), disk))).toEqual(want);
});

test("nothing is fetched long before a pod would have to go", () => {
  expect(isLowForImages({ sizeBytes: 10, freeBytes: 0.9 })).toBe(true);
  expect(isLowForImages({ sizeBytes: 10, freeBytes: 1.1 })).toBe(false);
});
