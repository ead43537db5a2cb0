// SPDX-License-Identifier: Apache-2.0
import {
  closeSync,
  existsSync,
  fstatSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { InheritedFd } from "@patchbay/core/interfaces";
import { describeProcessRunnerContract } from "@patchbay/os/testing";
import { createClock } from "../clock.ts";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createProcessRunner } from "./process-runner.ts";

const runner = createProcessRunner();
const timeoutMs = 5000;
let directory = "";

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-run-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

/** A file of that name and text, open for reading. */
function openFile(name: string): InheritedFd {
  writeFileSync(join(directory, name), name);
  const fd = openSync(join(directory, name), "r");
  return { fd, inode: fstatSync(fd, { bigint: true }).ino.toString() };
}

/** Whether a process runs; a zombie does not. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${String(pid)}/status`, "utf8"));
  } catch {
    return false;
  }
}

describeProcessRunnerContract("programs of this machine", () => ({
  runner,
  speaker: ["sh", "-c", "echo out; echo err >&2; exit 3"],
  echo: ["cat"],
  sleeper: ["sleep", "300"],
  pass: (ms) => createClock().sleep(ms, new AbortController().signal),
}));

describe("a program's result", () => {
  test.each([
    {
      name: "exits successfully",
      script: "echo out; echo err >&2",
      want: { exitCode: 0, stdout: "out\n", stderr: "err\n" },
    },
    { name: "fails", script: "exit 3", want: { exitCode: 3, stdout: "", stderr: "" } },
    {
      name: "is killed by a signal",
      script: "kill -KILL $$",
      want: { exitCode: 137, stdout: "", stderr: "" },
    },
    {
      name: "reads an empty input",
      script: "cat; echo end",
      want: { exitCode: 0, stdout: "end\n", stderr: "" },
    },
  ])("is reported when the program $name", async ({ script, want }) => {
    expect(await runner.run({ argv: ["sh", "-c", script], timeoutMs })).toEqual(want);
  });

  test("passes text to the program's input", async () => {
    const stdin = "x".repeat(300_000);
    const result = await runner.run({ argv: ["cat"], stdin, timeoutMs });
    expect(result.stdout).toBe(stdin);
  });

  test("tolerates a program that does not read its input", async () => {
    const stdin = "x".repeat(300_000);
    const result = await runner.run({ argv: ["true"], stdin, timeoutMs });
    expect(result.exitCode).toBe(0);
  });

  test("passes arguments without a shell", async () => {
    const result = await runner.run({ argv: ["printf", "%s", "$(id); `id` > x"], timeoutMs });
    expect(result.stdout).toBe("$(id); `id` > x");
  });

  test("sets the given environment, or PATH only", async () => {
    const bare = await runner.run({ argv: ["env"], timeoutMs });
    expect(bare.stdout).toMatch(/^PATH=.*\n$/);
    const outcome = await runner.run({ argv: ["/usr/bin/env"], env: { A: "1" }, timeoutMs });
    expect(outcome.stdout).toBe("A=1\n");
  });

  test.each([
    { name: "cron's PATH", path: "/usr/bin:/bin", want: "/usr/bin:/bin:/usr/sbin:/sbin" },
    { name: "root's PATH", path: "/sbin:/bin:/usr/sbin", want: "/sbin:/bin:/usr/sbin" },
    { name: "no PATH", path: undefined, want: expect.stringMatching(/:\/usr\/sbin:/) as string },
    { name: "an empty PATH", path: "", want: expect.stringMatching(/:\/usr\/sbin:/) as string },
  ])("finds the administrator's programs with $name", async ({ path, want }) => {
    vi.stubEnv("PATH", path);
    try {
      const { stdout } = await runner.run({ argv: ["/usr/bin/printenv", "PATH"], timeoutMs });
      expect(stdout.trimEnd()).toEqual(want);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test("the program inherits descriptors as 3, 4 in this order", async () => {
    const fds = ["one", "two"].map(openFile);
    const result = await runner.run({
      argv: ["sh", "-c", "cat <&4; cat <&3"],
      inheritFds: fds,
      timeoutMs,
    });
    for (const { fd } of fds) closeSync(fd);
    expect(result.stdout).toBe("twoone");
  });

  test("starts nothing if a descriptor's number belongs to another file by now", async () => {
    const mine = openFile("mine");
    closeSync(mine.fd);
    const started = join(directory, "started");
    const runStale = (): Promise<unknown> =>
      runner.run({ argv: ["touch", started], inheritFds: [mine], timeoutMs });
    const stale = { code: "OS_DESCRIPTOR_STALE", details: { fd: mine.fd } };
    await expect(runStale()).rejects.toMatchObject(stale);
    const other = openFile("other");
    expect(other.fd).toBe(mine.fd);
    await expect(runStale()).rejects.toMatchObject(stale);
    closeSync(other.fd);
    expect(existsSync(started)).toBe(false);
  });

  test("the program has no blocked or ignored signals and its own session", async () => {
    const script = 'grep -E "^Sig(Blk|Ign)" /proc/self/status; [ "$(ps -o sid= $$)" -eq $$ ]';
    const result = await runner.run({ argv: ["sh", "-c", script], timeoutMs });
    expect(result.stdout).toBe("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    expect(result.exitCode).toBe(0);
  });

  test("looks the program up in the PATH of its environment", async () => {
    writeFileSync(join(directory, "mine"), "#!/bin/sh\necho mine\n", { mode: 0o755 });
    const env = { PATH: `/nowhere:${directory}` };
    expect(await runner.run({ argv: ["mine"], env, timeoutMs })).toMatchObject({
      stdout: "mine\n",
    });
  });

  test("a leftover child that holds the pipes does not delay the result", async () => {
    const result = await runner.run({ argv: ["sh", "-c", "sleep 4 & echo $!"], timeoutMs: 20_000 });
    process.kill(Number(result.stdout), "SIGKILL");
    expect(result.exitCode).toBe(0);
  });
});

describe("a program that does not start", () => {
  test("is reported if it is missing", async () => {
    const run = runner.run({ argv: ["no-such-program-here"], timeoutMs });
    await expect(run).rejects.toMatchObject({
      code: "OS_PROGRAM_MISSING",
      details: { program: "no-such-program-here" },
    });
  });

  test("is reported if it is not executable", async () => {
    const path = join(directory, "text");
    writeFileSync(path, "text");
    await expect(runner.run({ argv: [path], timeoutMs })).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { errno: "EACCES" },
    });
  });
});

describe("the deadline", () => {
  /** Runs the script with growing deadlines until it was fast enough to write the file. */
  async function expire(script: string, file: string): Promise<void> {
    for (let limitMs = 200; limitMs < 60_000 && !existsSync(file); limitMs *= 2) {
      const run = runner.run({ argv: ["sh", "-c", script], timeoutMs: limitMs });
      await expect(run).rejects.toMatchObject({
        code: "OS_TIMED_OUT",
        details: { program: "sh", timeoutMs: limitMs },
      });
    }
  }

  test("ends a program by SIGTERM, so that it can clean up", async () => {
    const mark = join(directory, "mark");
    await expire(`trap 'echo clean > ${mark}; exit 0' TERM; while :; do sleep 0.05; done`, mark);
    expect(readFileSync(mark, "utf8")).toBe("clean\n");
  });

  test("kills the whole group, including processes that ignore SIGTERM", async () => {
    const pids = join(directory, "pids");
    await expire(
      `trap '' TERM; sh -c 'echo $$ > ${pids}; while :; do sleep 0.05; done' & wait`,
      pids,
    );
    // A killed process closes its pipes before it ends.
    await expect.poll(() => isRunning(Number(readFileSync(pids, "utf8")))).toBe(false);
  });

  test("kills a program that writes without end", async () => {
    await expect(runner.run({ argv: ["yes"], timeoutMs: 30_000 })).rejects.toMatchObject({
      code: "OS_PROGRAM_FAILED",
    });
  });
});

describe("aborting", () => {
  test("kills the program and rejects with the reason", async () => {
    const abort = new AbortController();
    const run = runner.run({ argv: ["sleep", "60"], timeoutMs: 70_000, signal: abort.signal });
    abort.abort(new Error("stop"));
    await expect(run).rejects.toThrow("stop");
  });

  test("before the start prevents the start", async () => {
    const mark = join(directory, "mark");
    const signal = AbortSignal.abort(new Error("stopped before"));
    const run = runner.run({ argv: ["touch", mark], timeoutMs, signal });
    await expect(run).rejects.toThrow("stopped before");
    expect(() => readFileSync(mark)).toThrow("ENOENT");
  });
});
