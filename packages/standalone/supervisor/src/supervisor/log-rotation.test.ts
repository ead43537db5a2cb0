// SPDX-License-Identifier: Apache-2.0
import {
  appendFileSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "@patchbay/os";
import { createFakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { rotateLargeLogs, rotateMachineLogs } from "./log-rotation.ts";

const files = createFiles();
const log = createFakeLogger();
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "logs-"));
});

afterEach(async () => {
  await files.remove(directory);
});

function rotateAll(): Promise<void> {
  const bounds = { bytesMax: 10, filesMax: 3 };
  return rotateLargeLogs({ files, clock: createFakeClock(), log, directory, bounds });
}

function contents(): Record<string, string> {
  const names = readdirSync(directory);
  return Object.fromEntries(
    names.map((name) => [name, readFileSync(join(directory, name), "utf8")]),
  );
}

test("moves the lines of a large log, to which its service continues to append", async () => {
  const service = openSync(join(directory, "a.log"), "a");
  appendFileSync(join(directory, "small.log"), "ten bytes\n");
  for (const round of ["1", "2", "3", "4"]) {
    writeSync(service, `line ${round} of a\n`);
    await rotateAll();
  }
  writeSync(service, "last\n");
  await rotateAll();
  expect(contents()).toEqual({
    "a.log": "last\n",
    "a.log.1": "ne 4 of a\n",
    "a.log.2": "ne 3 of a\n",
    "small.log": "ten bytes\n",
  });
});

test("logs a failure, and rotates the other logs", async () => {
  await files.ensureDirectory(join(directory, "a.log"));
  appendFileSync(join(directory, "b.log"), "eleven byte\n");
  await rotateAll();
  expect(log.lines.map(({ fields }) => fields["path"])).toEqual([join(directory, "a.log")]);
  expect(readdirSync(directory)).toEqual(["a.log", "b.log", "b.log.1"]);
});

test("a full disk costs no earlier file", async () => {
  const texts = { "a.log": "eleven byte\n", "a.log.1": "one\n", "a.log.2": "two\n" };
  for (const [name, text] of Object.entries(texts)) appendFileSync(join(directory, name), text);
  symlinkSync("/dev/full", join(directory, "a.log.0"));
  await rotateAll();
  expect(contents()).toEqual(texts);
  expect(log.lines.at(-1)?.fields["path"]).toBe(join(directory, "a.log"));
  await rotateAll();
  expect(contents()).toEqual({ "a.log": "", "a.log.1": "even byte\n", "a.log.2": "one\n" });
});

test("checks the logs until the supervisor ends", async () => {
  const clock = createFakeClock();
  const stop = new AbortController();
  appendFileSync(join(directory, "a.log"), "");
  const bounds = { bytesMax: 10, filesMax: 3 };
  const running = rotateMachineLogs({ files, clock, log, directory, bounds }, stop.signal);
  appendFileSync(join(directory, "a.log"), "eleven byte\n");
  await expect
    .poll(async () => {
      await clock.advance(10_000);
      return readdirSync(directory);
    })
    .toEqual(["a.log", "a.log.1"]);
  stop.abort();
  await running;
});

test("continues after the directory could not be listed", async () => {
  const clock = createFakeClock();
  const stop = new AbortController();
  appendFileSync(join(directory, "a.log"), "eleven byte\n");
  const failures = [new Error("EMFILE: too many open files"), new Error("EIO: i/o error")];
  const flaky: typeof files = {
    ...files,
    list: async (path) => {
      const failure = failures.shift();
      if (failure !== undefined) throw failure;
      return files.list(path);
    },
  };
  const bounds = { bytesMax: 10, filesMax: 3 };
  const lines = createFakeLogger();
  const deps = { files: flaky, clock, log: lines, directory, bounds };
  const running = rotateMachineLogs(deps, stop.signal);
  await expect
    .poll(async () => {
      await clock.advance(10_000);
      return readdirSync(directory);
    })
    .toEqual(["a.log", "a.log.1"]);
  stop.abort();
  await running;
  expect(lines.lines.map(({ message }) => message)).toEqual([
    "logs cannot be listed",
    "logs cannot be listed",
  ]);
});
