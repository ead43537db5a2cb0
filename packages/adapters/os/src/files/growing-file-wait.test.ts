// SPDX-License-Identifier: Apache-2.0
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { getEventListeners } from "node:events";
import { readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { waitForLine } from "./growing-file.ts";

let directory: string;
let stop: AbortController;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "line-"));
  stop = new AbortController();
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

function wait(name = "out"): Promise<string> {
  return waitForLine(join(directory, name), "ready", stop.signal);
}

test("finds an existing complete line, the first of several", async () => {
  writeFileSync(join(directory, "out"), "not ready\nready one\nready two\n");
  expect(await wait()).toBe("ready one");
});

/** Lets the reads that have begun end. */
async function settle(): Promise<void> {
  for (let round = 0; round < 20; round += 1) await readdir(directory);
}

function openWatches(): number {
  return process.getActiveResourcesInfo().filter((name) => name === "FSEventWrap").length;
}

test("reads a file that is created later, and a line only once it is complete", async () => {
  const waiting = wait();
  await settle();
  writeFileSync(join(directory, "other"), "ready elsewhere\n");
  writeFileSync(join(directory, "out"), "ready on");
  await settle();
  appendFileSync(join(directory, "out"), "e\n");
  expect(await waiting).toBe("ready one");
});

test("a wait that has ended leaves neither a watch nor a listener", async () => {
  const before = openWatches();
  const waiting = wait();
  expect(openWatches()).toBe(before + 1);
  writeFileSync(join(directory, "out"), "ready\n");
  await waiting;
  expect(openWatches()).toBe(before);
  expect(getEventListeners(stop.signal, "abort")).toEqual([]);
});

test("an abort ends a wait with its reason, before and during the wait", async () => {
  const waiting = wait();
  stop.abort(new Error("stopped"));
  await expect(waiting).rejects.toThrow("stopped");
  await expect(wait()).rejects.toThrow("stopped");
});

test("reports an unreadable file", async () => {
  mkdirSync(join(directory, "out"));
  await expect(wait()).rejects.toMatchObject({ code: "OS_FILE_FAILED", details: { call: "read" } });
});
