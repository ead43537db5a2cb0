// SPDX-License-Identifier: Apache-2.0
// virt-tail alone: it ends with its launcher, whenever that ends.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

const VIRT_TAIL = resolve(
  import.meta.dirname,
  "../../../packages/control-plane/virt-launcher/bin/virt-tail",
);
const WITHIN_MS = 30_000;
const LINE = "the last word\n";

let directory: string;
/** Leaders of process groups that may remain when the test fails. */
const remaining: ChildProcess[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "virt-tail-"));
  mkdirSync(join(directory, "bin"));
  execFileSync("mkfifo", [join(directory, "alive")]);
  writeFileSync(join(directory, "serial0.log"), LINE);
});
afterEach(() => {
  for (const { pid = 0 } of remaining.splice(0)) {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // All of them have ended.
    }
  }
  rmSync(directory, { recursive: true });
});

/** A wrapper that does something and then runs the program. */
function before(program: string, what: string): void {
  const path = join(directory, "bin", program);
  const real = execFileSync("sh", ["-c", `command -v ${program}`], { encoding: "utf8" }).trim();
  writeFileSync(path, `#!/bin/sh\n${what}\nexec ${real} "$@"\n`);
  chmodSync(path, 0o755);
}

/** Runs it with wrappers in place of other programs; returns its end and output. */
async function runTail(): Promise<readonly [code: number | null, printed: string]> {
  const path = `${join(directory, "bin")}:${process.env["PATH"] ?? ""}`;
  const tail = spawn(VIRT_TAIL, [], {
    env: { ...process.env, PATH: path, LAUNCHER_DIR: directory },
    stdio: ["ignore", "pipe", "inherit"],
    timeout: WITHIN_MS,
    // It exits cleanly when it is told to end.
    killSignal: "SIGKILL",
    detached: true,
  });
  remaining.push(tail);
  const printed: Buffer[] = [];
  tail.stdout.on("data", (chunk: Buffer) => printed.push(chunk));
  // Exit code of a process, undefined after a signal.
  const [code] = (await once(tail, "close")) as [number | null];
  return [code, Buffer.concat(printed).toString()];
}

test("an earlier end of the launcher causes no delay beyond printing the log", async () => {
  expect(await runTail()).toEqual([0, LINE]);
}, 60_000);

test("detects a launcher that ends just before the wait starts", async () => {
  // A running process holds the pipe open, like the launcher.
  const alive = join(directory, "alive");
  const launcher = spawn("sh", ["-c", `exec 9<>"${alive}"; exec sleep 1000`], {
    stdio: "ignore",
    detached: true,
  });
  remaining.push(launcher);
  await once(launcher, "spawn");
  const pid = String(launcher.pid);
  // virt-tail detects the pipe's end by cat.
  before("cat", `kill -KILL ${pid}; while kill -0 ${pid} 2>/dev/null; do sleep 0.05; done`);
  expect(await runTail()).toEqual([0, LINE]);
}, 60_000);
