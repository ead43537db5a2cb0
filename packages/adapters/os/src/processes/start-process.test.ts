// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readlinkSync } from "node:fs";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { waitForLine } from "../files/growing-file.ts";
import { isRunning, signalProcess } from "./process-identity.ts";
import { type DetachedProcess, runInForeground, startDetached } from "./start-process.ts";

const DEADLINE_MS = 5000;
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "detached-"));
});

afterAll(async () => {
  await rm(directory, { recursive: true });
});

function start(script: string, niceness?: number): Promise<DetachedProcess> {
  return startDetached({
    argv: ["/bin/sh", "-c", script],
    niceness,
    env: { PATH: "/usr/bin:/bin" },
    outFile: join(directory, "out"),
    logFile: join(directory, "log"),
  });
}

/** What of this directory is open here. */
function openBelow(top: string): readonly string[] {
  return readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(top);
    } catch {
      return false;
    }
  });
}

function waitForReady(): Promise<string> {
  return waitForLine(join(directory, "out"), "ready", AbortSignal.timeout(DEADLINE_MS));
}

test("a service runs in its own session, reports that it is ready, and is ended", async () => {
  const detached = await start("echo starting; echo ready $$; exec sleep 60");
  expect(await waitForReady()).toBe(`ready ${String(detached.pid)}`);
  const fields = await readFile(`/proc/${String(detached.pid)}/stat`, "utf8");
  const session = fields.slice(fields.lastIndexOf(")") + 2).split(" ")[3];
  expect(session).toBe(String(detached.pid));
  expect(await isRunning(detached)).toBe(true);
  await signalProcess(detached, "SIGTERM");
  expect(await detached.ended).toBe("SIGTERM");
  expect(await isRunning(detached)).toBe(false);
});

test("a program and its session have the wanted niceness", async () => {
  const detached = await start("nice; echo ready; exec sleep 60", 5);
  try {
    await waitForReady();
    expect(await readFile(join(directory, "out"), "utf8")).toMatch(/^5\n/);
    const path = `/proc/${String(detached.pid)}/autogroup`;
    // A kernel without autogroups has no such file.
    expect(await readFile(path, "utf8").catch(() => "nice 5")).toContain("nice 5");
  } finally {
    await signalProcess(detached, "SIGKILL");
    await detached.ended;
  }
});

test("does not end another process with the same PID", async () => {
  const detached = await start("exec sleep 60");
  const other = { pid: detached.pid, startTime: "1" };
  expect(await isRunning(other)).toBe(false);
  await signalProcess(other, "SIGKILL");
  expect(await isRunning(detached)).toBe(true);
  await signalProcess(detached, "SIGKILL");
  expect(await detached.ended).toBe("SIGKILL");
});

test("the process has umask 022, and the caller's umask does not change", async () => {
  const callersUmask = process.umask(0o077);
  const detached = await start("umask");
  expect(process.umask(callersUmask)).toBe(0o077);
  expect(await detached.ended).toBe("exit code 0");
  expect(await readFile(join(directory, "out"), "utf8")).toBe("0022\n");
});

test("appends standard error", async () => {
  const first = await start("echo one >&2");
  expect(await first.ended).toBe("exit code 0");
  const second = await start("echo two >&2; exit 3");
  expect(await second.ended).toBe("exit code 3");
  expect(await readFile(join(directory, "log"), "utf8")).toMatch(/one\ntwo\n$/);
});

test.each([
  { name: "does not exist", program: "/no/such/program", want: { code: "OS_PROGRAM_MISSING" } },
  {
    name: "is not executable",
    program: "/etc",
    want: { code: "OS_FILE_FAILED", details: { call: "exec", errno: "EACCES" } },
  },
])("fails for a program that $name, and closes its files", async ({ program, want }) => {
  const files = { outFile: join(directory, "out"), logFile: join(directory, "log") };
  const start = startDetached({ argv: [program], env: {}, ...files });
  await expect(start).rejects.toMatchObject(want);
  expect(openBelow(directory)).toEqual([]);
});

test("the output is readable by its user only, and the log by the group too", async () => {
  const detached = await start("pwd");
  await detached.ended;
  expect(await readFile(join(directory, "out"), "utf8")).toBe("/\n");
  const modes = ["out", "log"].map(
    async (name) => (await stat(join(directory, name))).mode & 0o777,
  );
  expect(await Promise.all(modes)).toEqual([0o600, 0o640]);
});

test("an abort ends the wait for a line", async () => {
  const reason = new Error("too late");
  await expect(
    waitForLine(join(directory, "none"), "ready", AbortSignal.abort(reason)),
  ).rejects.toBe(reason);
});

test.each([
  { name: "an exit code", script: "exit 7", want: 7 },
  { name: "a signal", script: "kill -TERM $$", want: 128 + 15 },
])("returns $want for a program that ends with $name", async ({ script, want }) => {
  expect(await runInForeground(["sh", "-c", script])).toBe(want);
});

test("a program in the foreground has the given umask", async () => {
  const file = join(directory, "umask");
  const callersUmask = process.umask(0o077);
  expect(await runInForeground(["sh", "-c", `umask > ${file}`], 0o027)).toBe(0);
  expect(await readFile(file, "utf8")).toBe("0027\n");
  expect(process.umask(callersUmask)).toBe(0o077);
});

test("reports a program that cannot be executed", async () => {
  await expect(runInForeground(["/etc"])).rejects.toMatchObject({
    code: "OS_FILE_FAILED",
    details: { call: "exec", path: "/etc", errno: "EACCES" },
  });
});

test("names a missing program", async () => {
  await expect(runInForeground(["no-such-program-anywhere"])).rejects.toMatchObject({
    code: "OS_PROGRAM_MISSING",
    details: { program: "no-such-program-anywhere" },
  });
});
