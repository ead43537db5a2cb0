// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { forgottenLogs, planRotation } from "./plan.ts";

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
    ...["0.log.1", "0.log.2", "0.log.3"],
  ]);
});

test("the logs of runs that are gone are forgotten, and nothing that is no log", () => {
  expect(forgottenLogs(OLD, ["1.log"])).toEqual(["0.log", "0.log.1", "0.log.2", "0.log.3"]);
  expect(forgottenLogs(["x", "1.log.old", "11.log"], ["1.log"])).toEqual(["11.log"]);
});
