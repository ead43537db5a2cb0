// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { getEventListeners } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createFakeFiles } from "@patchbay/os/testing";
import { afterEach, describe, expect, test } from "vitest";
import { createFiles } from "../files/files.ts";
import {
  isRunning,
  killAndWait,
  readBootId,
  readProcessStartTime,
  waitForProcessEnd,
} from "./process-identity.ts";

test("a boot has an ID that does not change", async () => {
  const name = await readBootId(createFiles());
  expect(name).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  expect(await readBootId(createFiles())).toBe(name);
});

test("fails on a machine without a boot ID", async () => {
  await expect(readBootId(createFakeFiles())).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
});

const started: ChildProcess[] = [];

function startSleeper(): number {
  const child = spawn("sleep", ["300"], { stdio: "ignore" });
  started.push(child);
  return child.pid ?? 0;
}

async function readStartTime(pid: number): Promise<string> {
  return (await readProcessStartTime(pid)) ?? "";
}

afterEach(() => {
  for (const child of started.splice(0)) child.kill("SIGKILL");
});

describe("process end", () => {
  test("the wait ends with the process", async () => {
    const pid = startSleeper();
    const wait = waitForProcessEnd(pid, await readStartTime(pid));
    process.kill(pid, "SIGKILL");
    await expect(wait).resolves.toBeUndefined();
  });

  test("another process with the same pid is not waited for", async () => {
    await expect(waitForProcessEnd(startSleeper(), "1")).resolves.toBeUndefined();
  });

  test("a missing process has ended", async () => {
    await expect(waitForProcessEnd(2 ** 22 + 1, "1")).resolves.toBeUndefined();
    expect(await readProcessStartTime(2 ** 22 + 1)).toBeUndefined();
  });

  test("an aborted wait rejects with the signal's reason", async () => {
    const pid = startSleeper();
    const startTime = await readStartTime(pid);
    const controller = new AbortController();
    const wait = waitForProcessEnd(pid, startTime, controller.signal);
    controller.abort(new Error("enough"));
    await expect(wait).rejects.toThrow("enough");
    const late = waitForProcessEnd(pid, startTime, controller.signal);
    await expect(late).rejects.toThrow("enough");
  });

  test("a killed process has ended afterwards, and killing a missing process succeeds", async () => {
    const pid = startSleeper();
    await killAndWait(pid);
    expect(await isRunning({ pid, startTime: await readStartTime(pid) })).toBe(false);
    await killAndWait(2 ** 22 + 1);
  });

  test("reports an error of the kernel for an invalid process number", async () => {
    await expect(waitForProcessEnd(-1, "1")).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { call: "pidfd_open", path: "/proc/-1", errno: "EINVAL" },
    });
  });

  test("a wait that has ended leaves no listener", async () => {
    const { signal } = new AbortController();
    await waitForProcessEnd(startSleeper(), "1", signal);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("waits leave no descriptor and no thread behind", async () => {
    const pid = startSleeper();
    const startTime = await readStartTime(pid);
    const waitOnce = async (): Promise<void> => {
      const controller = new AbortController();
      const wait = waitForProcessEnd(pid, startTime, controller.signal);
      expect(listPidfds(pid)).toHaveLength(1);
      controller.abort(new Error("enough"));
      await expect(wait).rejects.toThrow("enough");
    };
    await waitOnce();
    const before = countThreads();
    for (let round = 0; round < WAITS; round += 1) await waitOnce();
    expect(listPidfds(pid)).toEqual([]);
    // Fewer where one of an earlier file has ended meanwhile.
    expect(countThreads()).toBeLessThanOrEqual(before);
  });
});

const WAITS = 300;

/** Descriptors of this process that name that one. Source: proc_pid_fdinfo(5), pidfd_open(2) */
function listPidfds(pid: number): readonly string[] {
  return readdirSync("/proc/self/fdinfo").filter((fd) => {
    try {
      return readFileSync(`/proc/self/fdinfo/${fd}`, "utf8").includes(`\nPid:\t${String(pid)}\n`);
    } catch {
      return false; // closed meanwhile
    }
  });
}

function countThreads(): number {
  return readdirSync("/proc/self/task").length;
}
