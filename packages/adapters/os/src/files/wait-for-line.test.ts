// SPDX-License-Identifier: Apache-2.0
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { waitForLine } from "./wait-for-line.ts";

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

test("a whole line that is there is found, and the first of several", async () => {
  writeFileSync(join(directory, "out"), "not ready\nready one\nready two\n");
  expect(await wait()).toBe("ready one");
});

test("a file that comes later is read, and a line only once it has its end", async () => {
  const waiting = wait();
  writeFileSync(join(directory, "other"), "ready elsewhere\n");
  writeFileSync(join(directory, "out"), "ready on");
  await expect(Promise.race([waiting, Promise.resolve("open")])).resolves.toBe("open");
  appendFileSync(join(directory, "out"), "e\n");
  expect(await waiting).toBe("ready one");
});

test("an abort ends it with its reason, before and during the wait", async () => {
  const waiting = wait();
  stop.abort(new Error("stopped"));
  await expect(waiting).rejects.toThrow("stopped");
  await expect(wait()).rejects.toThrow("stopped");
});

test("what cannot be read is reported", async () => {
  mkdirSync(join(directory, "out"));
  await expect(wait()).rejects.toMatchObject({ code: "OS_FILE_FAILED", details: { call: "read" } });
});
