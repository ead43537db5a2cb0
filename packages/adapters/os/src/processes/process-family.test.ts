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
  await runner.killProcessFamily(directory);
  rmSync(directory, { recursive: true, force: true });
});

function isRunning(pid: string): boolean {
  if (pid === "") throw new Error("the process has not started");
  try {
    return !/\) [XZ] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false; // The process has ended.
  }
}

/** A shell script that starts a process, in a session of its own unless that is said otherwise, whose pid it leaves in a file. */
function startsAnother(
  name: string,
  { by = "setsid", to = "> /dev/null 2>&1" } = {},
): { readonly script: string; readonly pid: () => string } {
  const file = join(directory, name);
  return {
    script: `${by} sh -c 'echo $$ > ${file}; exec sleep 600' ${to} & while [ ! -s ${file} ]; do sleep 0.01; done`,
    // Empty until the process has started.
    pid: () => (existsSync(file) ? readFileSync(file, "utf8").trim() : ""),
  };
}

test("another session of the program ends with the program when it times out", async () => {
  const { script, pid } = startsAnother("pid");
  const argv = ["sh", "-c", `${script}; sleep 600`] as const;
  // On a busy machine, the other session may start only after the first limits.
  for (let timeoutMs = 200; pid() === ""; timeoutMs *= 2) {
    const running = runner.run({ argv, processFamily: directory, timeoutMs });
    await expect(running).rejects.toMatchObject({ code: "OS_TIMED_OUT" });
  }
  expect(isRunning(pid())).toBe(false);
});

test("another session of the program ends with the program when a signal kills the program", async () => {
  const { script, pid } = startsAnother("pid");
  const argv = ["sh", "-c", `${script}; kill -KILL $$`] as const;
  const result = await runner.run({ argv, processFamily: directory, timeoutMs: 60_000 });
  expect(result).toMatchObject({ exitCode: 137 });
  expect(isRunning(pid())).toBe(false);
});

test.each([
  { name: "in its process group", how: { by: "" } },
  { name: "with its pipes, in another session", how: { to: "" } },
])("a child that a program leaves $name has ended before the result", async ({ how }) => {
  const { script, pid } = startsAnother("pid", how);
  const argv = ["sh", "-c", `${script}; echo done`] as const;
  const result = await runner.run({ argv, processFamily: directory, timeoutMs: 60_000 });
  expect(result).toMatchObject({ exitCode: 0, stdout: "done\n" });
  expect(isRunning(pid())).toBe(false);
});

test("a child outside the program's group and pipes ends soon after it; other programs' children stay", async () => {
  const [mine, next, other] = [startsAnother("a"), startsAnother("b"), startsAnother("c")];
  const command = { processFamily: directory, timeoutMs: 60_000 };
  const stop = new AbortController();
  const { signal } = stop;
  const script = `${other.script}; exec sleep 600`;
  const running = runner.run({ ...command, argv: ["sh", "-c", script], signal });
  running.catch(() => undefined); // looked at below
  await expect.poll(other.pid).not.toBe("");
  await runner.run({ ...command, argv: ["sh", "-c", mine.script] });
  await expect.poll(() => isRunning(mine.pid())).toBe(false);
  // While it pauses, what comes is not forgotten.
  await runner.run({ ...command, argv: ["sh", "-c", next.script] });
  await expect.poll(() => isRunning(next.pid())).toBe(false);
  expect(isRunning(other.pid())).toBe(true);
  stop.abort(new Error("over"));
  await expect(running).rejects.toThrow("over");
  expect(isRunning(other.pid())).toBe(false);
});

test("a child of a program without a family continues to run", async () => {
  const { script, pid } = startsAnother("pid");
  await runner.run({ argv: ["sh", "-c", script], timeoutMs: 60_000 });
  expect(isRunning(pid())).toBe(true);
  process.kill(Number(pid()), "SIGKILL");
});

test("kills a family, but no family whose name only starts with the same text", async () => {
  const [mine, other] = [startsAnother("mine"), startsAnother("other")];
  const runs = [
    { processFamily: `${directory}/a`, ...mine },
    { processFamily: `${directory}/ab`, ...other },
  ].map(({ processFamily, script }) =>
    runner.run({
      argv: ["sh", "-c", `${script}; exec sleep 600`],
      processFamily,
      timeoutMs: 60_000,
    }),
  );
  for (const { pid } of [mine, other]) await expect.poll(pid).not.toBe("");
  await runner.killProcessFamily(`${directory}/a`);
  expect((await runs[0])?.exitCode).toBe(137);
  expect(isRunning(mine.pid())).toBe(false);
  expect(isRunning(other.pid())).toBe(true);
  await runner.killProcessFamily(`${directory}/ab`);
  expect((await runs[1])?.exitCode).toBe(137);
});

test("a program ends with the process that runs it", async () => {
  const file = join(directory, "pid");
  const command = {
    argv: ["sh", "-c", `echo $$ > ${file}; exec sleep 600`],
    processFamily: directory,
  };
  const code = `const { createProcessRunner } = await import(${JSON.stringify(RUNNER)});
    const { statSync } = await import("node:fs");
    createProcessRunner().run({ ...${JSON.stringify(command)}, timeoutMs: 600_000 });
    setInterval(() => statSync(${JSON.stringify(file)}, { throwIfNoEntry: false })?.size && console.log("runs"), 10);`;
  const argv = ["--conditions=@patchbay/source", "--input-type=module", "-e", code];
  const parent = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "inherit"] });
  await once(parent.stdout, "data");
  const pid = readFileSync(file, "utf8").trim();
  expect(isRunning(pid)).toBe(true);
  parent.kill("SIGKILL");
  await once(parent, "exit");
  await expect.poll(() => isRunning(pid)).toBe(false);
});
