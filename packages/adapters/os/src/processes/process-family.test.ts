// SPDX-License-Identifier: Apache-2.0
// Does everything end that a program has started, also what has left its group and its session?
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createProcessRunner } from "./process-runner.ts";

const RUNNER = new URL("./process-runner.ts", import.meta.url).href;
const runner = createProcessRunner();
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-family-"));
});

afterEach(async () => {
  await runner.endFamily(directory);
  rmSync(directory, { recursive: true, force: true });
});

function isRunning(pid: string): boolean {
  if (!existsSync(`/proc/${pid}/stat`)) return false;
  return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
}

/** A shell script that starts a process in a session of its own, whose pid it leaves in a file. */
function startsAnother(name: string): { readonly script: string; readonly pid: () => string } {
  const file = join(directory, name);
  return {
    script: `setsid sh -c 'echo $$ > ${file}; exec sleep 600' > /dev/null 2>&1 & while [ ! -s ${file} ]; do sleep 0.01; done`,
    pid: () => readFileSync(file, "utf8").trim(),
  };
}

test.each([
  { name: "at the deadline", end: "sleep 600", want: { code: "OS_TIMED_OUT" } },
  { name: "when a signal ends the program", end: "kill -KILL $$", want: { exitCode: 137 } },
])("another session of the program ends with it $name", async ({ end, want }) => {
  const { script, pid } = startsAnother("pid");
  const outcome: unknown = await runner
    .run({ argv: ["sh", "-c", `${script}; ${end}`], family: directory, timeoutMs: 700 })
    .catch((error: unknown) => error);
  expect(outcome).toMatchObject(want);
  expect(isRunning(pid())).toBe(false);
});

test("what a program leaves running on purpose stays, until its family is ended", async () => {
  const mine = startsAnother("mine");
  const other = startsAnother("other");
  await runner.run({ argv: ["sh", "-c", mine.script], family: `${directory}/a`, timeoutMs: 5_000 });
  await runner.run({
    argv: ["sh", "-c", other.script],
    family: `${directory}/ab`,
    timeoutMs: 5_000,
  });
  expect(isRunning(mine.pid())).toBe(true);
  await runner.endFamily(`${directory}/a`);
  expect(isRunning(mine.pid())).toBe(false);
  expect(isRunning(other.pid())).toBe(true);
});

test("a program ends with the process that runs it", async () => {
  const file = join(directory, "pid");
  const command = { argv: ["sh", "-c", `echo $$ > ${file}; exec sleep 600`], family: directory };
  const code = `const { createProcessRunner } = await import(${JSON.stringify(RUNNER)});
    const { existsSync } = await import("node:fs");
    createProcessRunner().run({ ...${JSON.stringify(command)}, timeoutMs: 600_000 });
    setInterval(() => existsSync(${JSON.stringify(file)}) && console.log("runs"), 10);`;
  const argv = ["--conditions=@patchbay/source", "--input-type=module", "-e", code];
  const parent = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "inherit"] });
  await once(parent.stdout, "data");
  const pid = readFileSync(file, "utf8").trim();
  expect(isRunning(pid)).toBe(true);
  parent.kill("SIGKILL");
  await once(parent, "exit");
  await expect.poll(() => isRunning(pid)).toBe(false);
});
