// SPDX-License-Identifier: Apache-2.0
import { readProcessStartTime } from "@patchbay/os";
import { createFakeClock, createFakeFiles } from "@patchbay/os/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { buildPaths } from "../data-dir/paths.ts";
import { findSupervisor, readState, findFailureReason, StateWriter, type Step } from "./state.ts";

const PATHS = buildPaths("/d");
const WHO = { pid: 7, startTime: "100", bootId: "boot" };
const STATE = { ...WHO, phase: "ready", steps: [], reason: "" } as const;

let files = createFakeFiles();
beforeEach(() => {
  files = createFakeFiles();
});

describe("the state file of a supervisor", () => {
  test.each([
    { name: "is missing", text: undefined, want: undefined },
    { name: "is not JSON", text: "ready", want: undefined },
    { name: "has an unknown phase", text: { ...STATE, phase: "waiting" }, want: undefined },
    { name: "has no pid", text: { ...STATE, pid: "7" }, want: undefined },
    { name: "is whole", text: STATE, want: STATE },
    {
      name: "lacks all optional fields",
      text: { pid: 7, phase: "failed", steps: "none" },
      want: { pid: 7, startTime: "", bootId: "", phase: "failed", steps: [], reason: "" },
    },
    {
      name: "has valid and invalid steps",
      text: { ...STATE, steps: [{ afterMs: 5, text: "one" }, "two", {}] },
      want: {
        ...STATE,
        steps: [
          { afterMs: 5, text: "one" },
          { afterMs: 0, text: "" },
        ],
      },
    },
  ])("that $name", async ({ text, want }) => {
    if (text !== undefined) await files.writeAtomic(PATHS.state, JSON.stringify(text));
    expect(await readState(files, PATHS)).toEqual(want);
  });
});

describe("a supervisor", () => {
  test.each([
    { name: "runs", change: {}, isFound: true },
    { name: "has ended", change: { startTime: "1" }, isFound: false },
    { name: "ran before the host started", change: { bootId: "another" }, isFound: false },
  ])("that $name is found: $isFound", async ({ change, isFound }) => {
    const startTime = (await readProcessStartTime(process.pid)) ?? "";
    const state = { ...STATE, pid: process.pid, startTime, ...change };
    await files.writeAtomic("/proc/sys/kernel/random/boot_id", "boot\n");
    await files.writeAtomic(PATHS.state, JSON.stringify(state));
    expect(await findSupervisor(files, PATHS)).toEqual(isFound ? state : undefined);
  });

  test("that never ran is not found", async () => {
    expect(await findSupervisor(files, PATHS)).toBeUndefined();
  });
});

test.each([
  { state: undefined, want: "it ended" },
  { state: STATE, want: "it ended" },
  { state: { ...STATE, reason: "no disk" }, want: "no disk" },
])("the reason of $state is $want", ({ state, want }) => {
  expect(findFailureReason(state, "it ended")).toBe(want);
});

test("writes each step with its time, and resets the time when the supervisor stops", async () => {
  const clock = createFakeClock();
  await clock.advance(1000);
  const steps: Step[] = [];
  const writer = new StateWriter({ files, clock, paths: PATHS }, WHO, (step) => steps.push(step));
  await clock.advance(10.4);
  await writer.addStep("one");
  const [one, two] = [
    { afterMs: 10, text: "one" },
    { afterMs: 5, text: "two" },
  ];
  expect(await readState(files, PATHS)).toEqual({ ...STATE, phase: "starting", steps: [one] });
  await writer.enterPhase("failed", "no disk");
  expect(await readState(files, PATHS)).toEqual({
    ...STATE,
    phase: "failed",
    steps: [one],
    reason: "no disk",
  });
  await clock.advance(100);
  await writer.enterPhase("stopping");
  await clock.advance(5);
  await writer.addStep("two");
  expect(await readState(files, PATHS)).toEqual({ ...STATE, phase: "stopping", steps: [two] });
  expect(steps).toEqual([one, two]);
});

test("writes its states one after the other", async () => {
  const ended: (() => void)[] = [];
  const written: string[] = [];
  const slow = {
    ...files,
    writeAtomic: (_path: string, text: string): Promise<void> => {
      written.push(text);
      const { promise, resolve } = Promise.withResolvers<undefined>();
      ended.push(() => {
        resolve(undefined);
      });
      return promise;
    },
  };
  const writer = new StateWriter({ files: slow, clock: createFakeClock(), paths: PATHS }, WHO);
  const all = [writer.addStep("one"), writer.addStep("two")];
  for (const index of [0, 1]) {
    await expect.poll(() => written.length).toBe(index + 1);
    ended[index]?.();
  }
  await Promise.all(all);
  expect(written.map((text) => text.includes("two"))).toEqual([false, true]);
});
