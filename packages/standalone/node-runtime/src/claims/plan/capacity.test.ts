// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { aVolume } from "../testing.ts";
import { computeClaimCapacityBytes, computeFreeClaimBytes, sumPromisedBytes } from "./claim.ts";

const GIBIBYTE = 2 ** 30;
/** Size to which the file of a file system of 1 GiB can grow, as in docs/capacity.md. */
const FILE = Math.ceil((GIBIBYTE * 25) / 24 / 4096) * 4096 + 66 * 2 ** 20;

test.each<{ name: string; disk: number; want: number }>([
  { name: "reserves a fixed part of a large disk", disk: 1000, want: 980 },
  { name: "reserves a share of a small disk", disk: 10, want: 8.5 },
  { name: "allows nothing without a disk", disk: 0, want: 0 },
])("$name", ({ disk, want }) => {
  expect(computeClaimCapacityBytes(disk * GIBIBYTE)).toBe(want * GIBIBYTE);
});

test("nothing is left where older claims promise more than there is", () => {
  expect(computeFreeClaimBytes({ diskBytes: GIBIBYTE, promisedBytes: 9 * GIBIBYTE })).toBe(0);
});

test.each<{ name: string; volume: ReturnType<typeof aVolume>; want: number }>([
  { name: "files and the tables of their file system", volume: aVolume(), want: FILE },
  { name: "a device", volume: aVolume("Bound", { volumeMode: "Block" }), want: GIBIBYTE },
  { name: "a released volume", volume: aVolume("Released"), want: FILE },
  { name: "a volume without storage yet", volume: aVolume("Pending"), want: FILE },
  {
    name: "no volume of another driver",
    volume: aVolume("Bound", { csi: { driver: "example.com/nfs", volumeHandle: "x" } }),
    want: 0,
  },
  { name: "no volume without a capacity", volume: aVolume("Bound", { capacity: {} }), want: 0 },
])("counts as promised: $name", ({ volume, want }) => {
  expect(sumPromisedBytes([volume])).toBe(want);
});
