// SPDX-License-Identifier: Apache-2.0
import { readProcessStartTime } from "@patchbay/os";
import { createFakeFiles, settle } from "@patchbay/os/testing";
import { beforeEach, expect, test } from "vitest";
import { buildPaths } from "../data-dir/paths.ts";
import { follow, printSeconds, type FollowOptions } from "./follow.ts";

const PATHS = buildPaths("/d");
const STEPS = [
  { afterMs: 420, text: "one" },
  { afterMs: 12_345, text: "two" },
];
const LINES = ["   0.42 s  one", "  12.35 s  two"];

let files = createFakeFiles();
let lines: string[];
let startTime: string;
beforeEach(async () => {
  files = createFakeFiles();
  lines = [];
  startTime = (await readProcessStartTime(process.pid)) ?? "";
});

/** Follows this process, which does not end, until it is ready. */
function followed(change: Partial<FollowOptions> = {}) {
  return follow({
    files,
    paths: PATHS,
    print: (line) => lines.push(line),
    pid: process.pid,
    startTime,
    activePhase: "starting",
    endPhases: ["ready", "failed"],
    timeoutMs: 60_000,
    ...change,
  });
}

async function write(phase: string, steps: readonly object[], pid = process.pid): Promise<void> {
  await files.writeAtomic(PATHS.state, JSON.stringify({ pid, startTime, phase, steps }));
  await settle();
}

test.each([
  { ms: 0, want: "   0.00 s" },
  { ms: 1234, want: "   1.23 s" },
  { ms: 1_234_567, want: "1234.57 s" },
])("prints $ms ms as $want", ({ ms, want }) => {
  expect(printSeconds(ms)).toBe(want);
});

test("prints each step once, until the phase is reached", async () => {
  const following = followed();
  await settle();
  await write("starting", STEPS.slice(0, 1));
  expect(lines).toEqual(LINES.slice(0, 1));
  await write("starting", STEPS.slice(0, 1));
  await write("ready", STEPS);
  expect(await following).toMatchObject({ ended: false, state: { phase: "ready" } });
  expect(lines).toEqual(LINES);
  await write("ready", [...STEPS, ...STEPS]);
  expect(lines).toEqual(LINES);
});

test("does not print steps of another process or phase", async () => {
  await write("ready", STEPS, process.pid + 1);
  const following = followed();
  await settle();
  await write("stopping", STEPS);
  expect(lines).toEqual([]);
  await write("failed", []);
  expect(await following).toMatchObject({ ended: false, state: { phase: "failed" } });
});

test("reports a process that has ended with its last output", async () => {
  await write("stopping", STEPS);
  const result = await followed({ startTime: "1", activePhase: "stopping", endPhases: [] });
  expect(result).toMatchObject({ ended: true, state: { phase: "stopping" } });
  expect(lines).toEqual(LINES);
});

test("ends if a file cannot be read", async () => {
  const broken = {
    ...files,
    watchDirectory: () => undefined,
    readText: () => Promise.reject(new Error("disk")),
  };
  await expect(followed({ files: broken })).rejects.toThrow("disk");
});
