// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import {
  parseCounters,
  chartPath,
  printRate,
  computeRates,
  withSample,
  type Sample,
} from "./traffic.ts";

const at = (seconds: number, received: number, sent = 0): Sample => ({
  atMs: seconds * 1000,
  counters: [received, sent],
});

test("computes rates between samples", () => {
  expect(computeRates([at(0, 0), at(2, 400, 100), at(3, 500, 100)])).toEqual([
    [200, 50],
    [100, 0],
  ]);
  expect(computeRates([at(0, 5)])).toEqual([]);
});

test("a reset counter starts a new curve, and the oldest samples are dropped", () => {
  expect(withSample([at(0, 10)], at(1, 5))).toEqual([at(1, 5)]);
  const many = Array.from({ length: 80 }, (_, index) => at(index, index));
  expect(many.reduce<readonly Sample[]>(withSample, [])).toEqual(many.slice(-60));
});

test.each([
  [0, "0 B/s"],
  [999, "999 B/s"],
  [1500, "1.5 kB/s"],
  [250_000_000, "250 MB/s"],
  [5e13, "50000 GB/s"],
])("%d is %s", (bytes, want) => {
  expect(printRate(bytes)).toBe(want);
});

test("a curve fills its chart", () => {
  expect(
    chartPath(
      [
        [0, 5],
        [10, 0],
        [5, 0],
      ],
      0,
    ),
  ).toBe("M0.0 29.0L50.0 1.0L100.0 15.0");
  expect(chartPath([[1, 1]], 0)).toBe("");
});

test("parses the counters of one NIC", () => {
  const items = [
    { name: "red", received: { bytes: 1 }, sent: { bytes: 2 } },
    { name: "blue", received: { bytes: 1024, packets: 3 }, sent: { bytes: 1500 } },
  ];
  const text = JSON.stringify({ metadata: {}, items });
  expect(parseCounters(text, "blue")).toEqual([1024, 1500]);
  expect(parseCounters(text, "green")).toBeUndefined();
  expect(parseCounters("{}", "blue")).toBeUndefined();
});
