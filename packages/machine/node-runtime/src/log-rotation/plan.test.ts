// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { forgottenLogs, nextLookMs, planRotation } from "./plan.ts";

const OLD = ["0.log", "0.log.1", "0.log.2", "0.log.3", "1.log", "1.log.9", "0.log.tmp"];

test.each([
  { name: "the first one", names: ["0.log"], time: "5", want: { to: "0.log.5", remove: [] } },
  {
    name: "the oldest go",
    names: OLD,
    time: "5",
    want: { to: "0.log.5", remove: ["0.log.1", "0.log.2"] },
  },
  {
    name: "a clock that went back",
    names: OLD,
    time: "2",
    want: { to: "0.log.30", remove: ["0.log.1", "0.log.2"] },
  },
])("a rotation: $name", ({ names, time, want }) => {
  expect(planRotation(names, "0.log", { time, filesMax: 3 })).toEqual(want);
});

test("two files are the least: the one that is written and the one before", () => {
  expect(planRotation(OLD, "0.log", { time: "5", filesMax: 2 }).remove).toEqual([
    "0.log.1",
    "0.log.2",
    "0.log.3",
  ]);
});

test("the logs of runs that are gone are forgotten, and nothing that is no log", () => {
  expect(forgottenLogs(OLD, ["1.log"])).toEqual(["0.log", "0.log.1", "0.log.2", "0.log.3"]);
  expect(forgottenLogs(["x", "1.log.old", "11.log"], ["1.log"])).toEqual(["11.log"]);
});

test.each([
  { name: "nothing was written", growth: { bytes: 0, tookMs: 500, leftBytes: 100 }, want: 500 },
  { name: "it will take long", growth: { bytes: 1, tookMs: 500, leftBytes: 100 }, want: 500 },
  { name: "it is full soon", growth: { bytes: 100, tookMs: 500, leftBytes: 20 }, want: 100 },
  { name: "it is a flood", growth: { bytes: 100, tookMs: 1, leftBytes: 20 }, want: 20 },
  { name: "a file was replaced", growth: { bytes: -5, tookMs: 10, leftBytes: 20 }, want: 500 },
])("the next look, where $name, is in $want ms", ({ growth, want }) => {
  expect(nextLookMs(growth)).toBe(want);
});
