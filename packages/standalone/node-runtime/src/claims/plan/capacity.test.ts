// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { aVolume } from "../testing.ts";
import { computeClaimCapacityBytes, computeFreeClaimBytes, sumPromisedBytes } from "./claim.ts";

const GIBIBYTE = 2 ** 30;

test.each<{ name: string; disk: number; want: number }>([
  { name: "a large disk keeps a fixed part for others", disk: 1000, want: 980 },
  { name: "a small disk a share, also one that is smaller than that part", disk: 10, want: 8.5 },
  { name: "no disk has nothing", disk: 0, want: 0 },
])("$name", ({ disk, want }) => {
  expect(computeClaimCapacityBytes(disk * GIBIBYTE)).toBe(want * GIBIBYTE);
});

test("nothing is left where older claims promise more than there is", () => {
  expect(computeFreeClaimBytes({ diskBytes: GIBIBYTE, promisedBytes: 9 * GIBIBYTE })).toBe(0);
});

test.each<{ name: string; volume: ReturnType<typeof aVolume>; want: number }>([
  { name: "files", volume: aVolume(), want: 1 },
  { name: "a device", volume: aVolume("Bound", { volumeMode: "Block" }), want: 1 },
  { name: "what is kept for a claim that is gone", volume: aVolume("Released"), want: 1 },
  { name: "storage that is not made yet", volume: aVolume("Pending"), want: 1 },
  {
    name: "nothing of another's",
    volume: aVolume("Bound", { csi: { driver: "example.com/nfs", volumeHandle: "x" } }),
    want: 0,
  },
  { name: "nothing of no size", volume: aVolume("Bound", { capacity: {} }), want: 0 },
])("of volumes $name is counted as promised", ({ volume, want }) => {
  expect(sumPromisedBytes([volume])).toBe(want * GIBIBYTE);
});
