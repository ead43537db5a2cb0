// SPDX-License-Identifier: Apache-2.0
// The next run removes a killed test run's machine, and nothing else. Needs root and a build.
import {
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { readProcessStartTime } from "@patchbay/os";
import { endTrial, openTrial } from "@patchbay/support";
import { afterEach, expect, test, vi } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
/** An impossible pid. Source: Linux, PID_MAX_LIMIT is 2^22. */
const DEAD = { pid: 2 ** 22 + 1, startTime: "1" };
/** The id of another user. */
const ANOTHER = 65_534;
const made: string[] = [];

afterEach(() => {
  for (const directory of made) rmSync(directory, { recursive: true, force: true });
});

/** A run's directory with a machine's data; `owner` as recorded. */
function trialOf(owner: object | undefined): string {
  const directory = mkdtempSync(join(tmpdir(), "patchbay-test-"));
  made.push(directory);
  mkdirSync(join(directory, "data"));
  const settings = JSON.stringify({ kind: "PatchbayStandalone" });
  writeFileSync(join(directory, "data/standalone.json"), settings);
  if (owner !== undefined) writeFileSync(join(directory, "owner.json"), JSON.stringify(owner));
  return directory;
}

async function openAndEnd(): Promise<void> {
  endTrial(await openTrial(ROOT, "test"));
}

test("removes the machine of a dead process", async () => {
  const remaining = trialOf(DEAD);
  await openAndEnd();
  expect(existsSync(remaining)).toBe(false);
});

test("two runs that start together remove it once", async () => {
  const remaining = trialOf(DEAD);
  const print = vi.spyOn(process.stdout, "write");
  await Promise.all([openAndEnd(), openAndEnd()]);
  const removals = print.mock.calls.filter(([text]) => String(text).startsWith(remaining));
  print.mockRestore();
  expect(removals).toHaveLength(1);
});

test("removes what it left before the machine began to start", async () => {
  const remaining = trialOf(DEAD);
  rmSync(join(remaining, "data/standalone.json"));
  await openAndEnd();
  expect(existsSync(remaining)).toBe(false);
});

test("preserves the machines of a live process and foreign ones", async () => {
  const startTime = await readProcessStartTime(process.pid);
  const retained = [trialOf({ pid: process.pid, startTime }), trialOf(undefined)];
  await openAndEnd();
  expect(retained.map((directory) => existsSync(directory))).toEqual([true, true]);
});

test("does not follow a link that another user put there", async () => {
  const remaining = trialOf(DEAD);
  const elsewhere = remaining.replace("patchbay-test-", "elsewhere-");
  renameSync(remaining, elsewhere);
  symlinkSync(elsewhere, remaining);
  lchownSync(remaining, ANOTHER, ANOTHER);
  made.push(elsewhere);
  await openAndEnd();
  expect(existsSync(join(elsewhere, "data/standalone.json"))).toBe(true);
});

test("a trial leaves nothing behind", async () => {
  const machine = await openTrial(ROOT, "test");
  const directory = dirname(machine.dataDir);
  expect(existsSync(directory)).toBe(true);
  endTrial(machine);
  expect(existsSync(directory)).toBe(false);
});
