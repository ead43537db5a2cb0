// SPDX-License-Identifier: Apache-2.0
import { expect, test, afterEach, beforeEach } from "vitest";
import { selectStaleLogs, computeNextCheckMs, planRotation, rotateLogs } from "./log-rotation.ts";
import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock, createFiles } from "@patchbay/os";
import { createFakeContainerRuntime, type FakeContainerRuntime } from "@patchbay/cri/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually } from "@patchbay/support";
import { createRuns, type Runs } from "./testing/runs.ts";

const OLD = ["0.log", "0.log.1", "0.log.2", "0.log.3", "1.log", "1.log.9", "0.log.tmp"];

test.each([
  {
    name: "the first one",
    names: ["0.log"],
    time: "5",
    want: { newName: "0.log.5", staleNames: [] },
  },
  {
    name: "renames the first log",
    names: ["0.log"],
    time: "5",
    want: { newName: "0.log.5", staleNames: [] },
  },
  {
    name: "removes the oldest logs",
    names: OLD,
    time: "5",
    want: { newName: "0.log.5", staleNames: ["0.log.1", "0.log.2"] },
  },
  {
    name: "handles a clock that jumped back",
    names: OLD,
    time: "2",
    want: { newName: "0.log.30", staleNames: ["0.log.1", "0.log.2"] },
  },
])("a rotation: $name", ({ names, time, want }) => {
  expect(planRotation(names, "0.log", { time, filesMax: 3 })).toEqual(want);
});

test("two files are the least: the one that is written and the one before", () => {
  expect(planRotation(OLD, "0.log", { time: "5", filesMax: 2 }).staleNames).toEqual([
    "0.log.1",
    "0.log.2",
    "0.log.3",
  ]);
});

test("selects only logs of removed runs", () => {
  expect(selectStaleLogs(OLD, ["1.log"])).toEqual(["0.log", "0.log.1", "0.log.2", "0.log.3"]);
  expect(selectStaleLogs(["x", "1.log.old", "11.log"], ["1.log"])).toEqual(["11.log"]);
});

test.each([
  {
    name: "the log does not grow",
    growth: { bytes: 0, tookMs: 500, remainingBytes: 100 },
    want: 500,
  },
  {
    name: "the log grows slowly",
    growth: { bytes: 1, tookMs: 500, remainingBytes: 100 },
    want: 500,
  },
  {
    name: "the log is nearly full",
    growth: { bytes: 100, tookMs: 500, remainingBytes: 20 },
    want: 100,
  },
  {
    name: "the log grows very fast",
    growth: { bytes: 100, tookMs: 1, remainingBytes: 20 },
    want: 20,
  },
  { name: "a file was replaced", growth: { bytes: -5, tookMs: 10, remainingBytes: 20 }, want: 500 },
])("the next look, where $name, is in $want ms", ({ growth, want }) => {
  expect(computeNextCheckMs(growth)).toBe(want);
});

const WITHIN = { withinMs: 8000 };
const BOUNDS = { bytesMax: 100, filesMax: 3 };
const LINE = `${"x".repeat(59)}\n`;

let directory: string;
let runtime: FakeContainerRuntime;
let runs: Runs;
let stop: AbortController;
/** Logs that were reopened and are empty again. */
let reopened: number;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "keep-logs-"));
  await mkdir(join(directory, "c"));
  runtime = createFakeContainerRuntime(createClock());
  runs = createRuns(runtime, directory);
  stop = new AbortController();
  reopened = 0;
  // As a runtime does: from now on it writes to a new file.
  const reopen = runtime.reopenLog.bind(runtime);
  runtime.reopenLog = async (id) => {
    await reopen(id);
    await writeFile((await runtime.findContainer(id))?.logPath ?? "", "");
    // Counted last: a test writes to the new file as soon as it sees the count, and must not lose what it writes.
    reopened += 1;
  };
});

afterEach(async () => {
  stop.abort();
  await rm(directory, { recursive: true, force: true });
});

function start(): void {
  const deps = { runtime, files: createFiles(), clock: createClock(), log: createSilentLogger() };
  rotateLogs({ ...deps, bounds: BOUNDS }, stop.signal);
}

function names(): Promise<string[]> {
  return readdir(join(directory, "c")).then((found) => found.sort());
}

function write(name: string, text: string): Promise<void> {
  return appendFile(join(directory, "c", name), text);
}

test("rotates a log beyond its limit, and removes the oldest files", async () => {
  start();
  await runs.run();
  for (const round of [1, 2, 3, 4]) {
    await write("0.log", LINE.repeat(2));
    await eventually(() => reopened === round, WITHIN);
  }
  await eventually(async () => (await names()).length === 3, WITHIN);
  expect((await stat(join(directory, "c/0.log"))).size).toBe(0);
});

test("rotates a log that was too long at the start", async () => {
  await runs.run();
  await write("0.log", LINE.repeat(2));
  start();
  await eventually(() => reopened === 1, WITHIN);
});

test("a log that the runtime cannot reopen retains its name", async () => {
  const id = await runs.run();
  runtime.reopenLog = () => Promise.reject(new Error("no"));
  await write("0.log", LINE.repeat(2));
  let warnings = 0;
  const log = { ...createSilentLogger(), warn: () => (warnings += 1) };
  const deps = { runtime, files: createFiles(), clock: createClock(), log };
  rotateLogs({ ...deps, bounds: BOUNDS }, stop.signal);
  await eventually(() => warnings === 1, WITHIN);
  expect(await names()).toEqual(["0.log"]);
  expect(await readFile(join(directory, "c/0.log"), "utf8")).toBe(LINE.repeat(2));
  runtime.endContainer(id, { exitCode: 0 });
});

test("does not change the log of a run that has ended", async () => {
  const id = await runs.run();
  runtime.endContainer(id, { exitCode: 0 });
  await write("0.log", LINE.repeat(2));
  start();
  await runs.run();
  await write("1.log", LINE.repeat(2));
  await eventually(() => reopened === 1, WITHIN);
  expect(await names()).toContain("0.log");
  expect(runtime.calls).not.toContain(`reopenLog ${id}`);
});

test("removes the logs of a run with the run", async () => {
  start();
  const first = await runs.run();
  await write("0.log", LINE);
  await runs.run();
  await write("1.log", LINE);
  await write("0.log.20261122", LINE);
  runtime.endContainer(first, { exitCode: 0 });
  await eventually(async () => (await names()).length === 3, WITHIN);
  await runtime.removeContainer(first);
  await eventually(async () => (await names()).join() === "1.log", WITHIN);
});

test("removes logs of runs that were removed before the start", async () => {
  await write("0.log", LINE);
  await runs.run();
  await write("7.log", LINE);
  await write("notes", LINE);
  start();
  await eventually(async () => (await names()).join() === "0.log,notes", WITHIN);
});

test("retains the log of a run that begins during the check", async () => {
  await runs.run();
  await write("7.log", LINE);
  const files = createFiles();
  const list = async (path: string): Promise<readonly string[]> => {
    await runs.run();
    await write("1.log", LINE);
    return files.list(path);
  };
  const deps = { runtime, clock: createClock(), log: createSilentLogger() };
  rotateLogs({ ...deps, files: { ...files, list }, bounds: BOUNDS }, stop.signal);
  await eventually(async () => !(await names()).includes("7.log"), WITHIN);
  expect(await names()).toEqual(["1.log"]);
});
