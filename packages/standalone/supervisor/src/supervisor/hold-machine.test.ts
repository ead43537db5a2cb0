// SPDX-License-Identifier: Apache-2.0
// One supervisor for one machine, by a lock in a directory of the test.
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles, readBootId } from "@patchbay/os";
import { createFakeClock } from "@patchbay/os/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { KIND } from "../data-dir/ownership.ts";
import { listDirectories, buildPaths } from "../data-dir/paths.ts";
import { lockMachine } from "./hold-machine.ts";
import { findSupervisor, type Step } from "./state.ts";

const files = createFiles();
let paths = buildPaths("/d");
beforeEach(() => {
  paths = buildPaths(join(tmpdir(), `machine-${randomUUID()}`));
});
afterEach(async () => {
  await files.remove(paths.dataDir);
});

function hold(onStep?: (step: Step) => void) {
  return lockMachine({ files, clock: createFakeClock(), paths }, onStep);
}

test("only one process holds a machine until its lock is released", async () => {
  const held = await hold();
  await expect(hold()).rejects.toMatchObject({
    code: "STANDALONE_RUNS_ALREADY",
    details: { dataDir: paths.dataDir, pid: String(process.pid) },
  });
  held.lock.release();
  (await hold()).lock.release();
});

test("creates and marks its directories, and finds this process as the supervisor", async () => {
  const steps: Step[] = [];
  const { lock, bootId, state } = await hold((step) => steps.push(step));
  expect(bootId).toBe(await readBootId(files));
  for (const [path] of listDirectories(paths)) expect(await files.exists(path)).toBe(true);
  expect(JSON.parse((await files.readText(paths.settings)) ?? "")).toHaveProperty("kind");
  await state.addStep("one");
  expect(await findSupervisor(files, paths)).toMatchObject({ pid: process.pid, bootId, steps });
  expect(steps).toEqual([{ afterMs: 0, text: "one" }]);
  lock.release();
});

test("rejects a directory with other files, without changes", async () => {
  await files.ensureDirectory(paths.dataDir);
  await files.writeAtomic(join(paths.dataDir, "notes.txt"), "mine");
  await expect(hold()).rejects.toMatchObject({ code: "STANDALONE_NOT_OURS" });
  expect(await files.list(paths.dataDir)).toEqual(["notes.txt"]);
});

async function writeSettings(settings: object): Promise<string> {
  await files.ensureDirectory(paths.dataDir);
  const text = JSON.stringify(settings);
  await files.writeAtomic(paths.settings, text);
  return text;
}

test("rejects a directory of a newer version, without changes", async () => {
  const text = await writeSettings({ kind: KIND, format: 2 });
  const details = { path: paths.dataDir, found: "2", supported: 1 };
  await expect(hold()).rejects.toMatchObject({ code: "FORMAT_TOO_NEW", details });
  expect(await files.list(paths.dataDir)).toEqual(["standalone.json"]);
  expect(await files.readText(paths.settings)).toBe(text);
});

test("accepts a directory of version 0.1, which recorded no format", async () => {
  const text = await writeSettings({ kind: KIND });
  (await hold()).lock.release();
  expect(await files.readText(paths.settings)).toBe(text);
});
