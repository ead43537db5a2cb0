// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { aPod, aRun } from "../../testing/pods.ts";
import { isToRestart, millisecondsOf, restartDelayOf, restartWaitMs } from "./restart.ts";

const SECOND = 1_000_000_000n;
const KEY = "patchbay.io/restart-delay-seconds";

test.each([
  { policy: "Always", exitCode: 0, isInit: false, want: true },
  { policy: "Always", exitCode: 0, isInit: true, want: false },
  { policy: "Always", exitCode: 1, isInit: true, want: true },
  { policy: "OnFailure", exitCode: 0, isInit: false, want: false },
  { policy: "OnFailure", exitCode: 1, isInit: false, want: true },
  { policy: "OnFailure", exitCode: 0, isInit: true, want: false },
  { policy: "Never", exitCode: 1, isInit: false, want: false },
  { policy: undefined, exitCode: 0, isInit: false, want: true },
  { policy: undefined, exitCode: 0, isInit: true, want: false },
] as const)(
  "policy $policy, exit code $exitCode, init $isInit: restarted $want",
  ({ policy, exitCode, isInit, want }) => {
    const { containers } = aPod().spec;
    const pod = { ...aPod(), spec: { containers, ...(policy && { restartPolicy: policy }) } };
    expect(isToRestart(pod, { exitCode }, isInit)).toBe(want);
  },
);

describe("of a pod that is never restarted runs again", () => {
  const message = "context canceled";
  const cut = { state: "EXITED", exitCode: 128, reason: "StartError", startedAt: 0n } as const;
  test.each([
    { name: "a start that was cut off", change: { message }, want: true },
    {
      name: "a shim that was killed",
      change: { message: "failed to start shim: x\n: signal: killed" },
      want: true,
    },
    { name: "no start that failed", change: { message: "no such file" }, want: false },
    {
      name: "no shim that failed",
      change: { message: "failed to start shim: EPERM" },
      want: false,
    },
    { name: "nothing that has run", change: { message, startedAt: 1n }, want: false },
    { name: "nothing that ended otherwise", change: { message, reason: "Error" }, want: false },
  ])("$name", ({ change, want }) => {
    const container = aRun({ ...cut, ...change });
    expect(isToRestart(aPod(), { exitCode: 128, container }, false)).toBe(want);
  });
});

test("nanoseconds are cut to milliseconds", () => {
  expect(millisecondsOf(1_999_999n)).toBe(1);
});

describe("the next start is put off", () => {
  test.each([
    { name: "not for a container of before", annotations: {}, ran: 1n, want: 0 },
    { name: "not by what is no number", annotations: { [KEY]: "x" }, ran: 1n, want: 0 },
    { name: "not by what is no end", annotations: { [KEY]: "Infinity" }, ran: 1n, want: 0 },
    { name: "ten seconds at first", annotations: { [KEY]: "0" }, ran: 1n, want: 10 },
    { name: "ten seconds at least", annotations: { [KEY]: "4" }, ran: 1n, want: 10 },
    { name: "twice as long as before", annotations: { [KEY]: "20" }, ran: 599n, want: 40 },
    { name: "five minutes at most", annotations: { [KEY]: "200" }, ran: 1n, want: 300 },
    { name: "not after ten minutes", annotations: { [KEY]: "200" }, ran: 600n, want: 0 },
  ])("$name", ({ annotations, ran, want }) => {
    const times = { startedAt: SECOND, finishedAt: (1n + ran) * SECOND };
    expect(restartDelayOf(aRun({ state: "EXITED", annotations, ...times }))).toBe(want);
  });

  test("also where the container never ran, however late it failed", () => {
    const times = { startedAt: 0n, finishedAt: 700n * SECOND };
    expect(restartDelayOf(aRun({ annotations: { [KEY]: "20" }, ...times }))).toBe(40);
  });
});

test.each([
  { name: "what is left of its delay", nowMs: 3000, want: 9000 },
  { name: "nothing when it is over", nowMs: 12_000, want: 0 },
  { name: "nothing long after it", nowMs: 99_000, want: 0 },
  {
    name: "no more than the longest delay, whatever the clock says",
    nowMs: -900_000,
    want: 300_000,
  },
])("a start waits for $name", ({ nowMs, want }) => {
  const times = { startedAt: SECOND, finishedAt: 2n * SECOND };
  const ended = aRun({ state: "EXITED", annotations: { [KEY]: "0" }, ...times });
  expect(restartWaitMs(ended, nowMs)).toBe(want);
});
