// SPDX-License-Identifier: Apache-2.0
// Identifies, signals and awaits processes, including those that are not children of this one.
import { closeSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { AppError } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import { errnoOf, isMissing, toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";

/** Signals a process group. Succeeds if the group does not exist. */
export function signalGroup(groupId: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-groupId, signal);
  } catch (error) {
    if (errnoOf(error) !== "ESRCH") throw error;
  }
}

/** Index of `starttime` among the fields after the command name. Source: proc(5), field 22 */
const START_TIME_INDEX = 22 - 3;

/** Identity of a process. Its pid may be reused, but not with the same start time. */
export interface ProcessName {
  readonly pid: number;
  readonly startTime: string;
}

/** Returns the start time in clock ticks since boot, in decimal; undefined if there is no such process. */
export async function readProcessStartTime(pid: number): Promise<string | undefined> {
  try {
    const stat = await readFile(`/proc/${String(pid)}/stat`, "utf8");
    // The command name is in parentheses and may itself contain spaces and parentheses.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[START_TIME_INDEX];
  } catch (error) {
    if (isMissing(error) || errnoOf(error) === "ESRCH") return undefined;
    throw toFileError(error, "read", `/proc/${String(pid)}/stat`);
  }
}

/** States of processes that have ended but are still listed. Source: proc(5), field 3 */
const ENDED_STATES: readonly string[] = ["Z", "X"];

async function hasEnded(pid: number): Promise<boolean> {
  try {
    const stat = await readFile(`/proc/${String(pid)}/stat`, "utf8");
    return ENDED_STATES.includes(stat.charAt(stat.lastIndexOf(")") + 2));
  } catch {
    return true; // It ended meanwhile.
  }
}

/** Checks whether the identified process runs. A zombie does not run. */
export async function isRunning(name: ProcessName): Promise<boolean> {
  const { pid, startTime } = name;
  if (startTime === "" || (await readProcessStartTime(pid)) !== startTime) return false;
  return !(await hasEnded(pid));
}

/** Sends a signal to the identified process, and SIGKILL to its whole group. Succeeds if the process has ended. */
export async function signalProcess(
  name: ProcessName,
  signal: "SIGTERM" | "SIGKILL",
): Promise<void> {
  if (!(await isRunning(name))) return;
  if (signal === "SIGKILL") {
    signalGroup(name.pid, signal);
    return;
  }
  try {
    process.kill(name.pid, signal);
  } catch (error) {
    if (errnoOf(error) !== "ESRCH") throw toFileError(error, "kill", String(name.pid));
  }
}

const BOOT_ID = "/proc/sys/kernel/random/boot_id";

/**
 * Returns the ID of this boot. Pids, links and namespaces of an earlier boot no longer exist. @throws AppError with
 * OS_FILE_FAILED
 */
export async function readBootId(files: Files): Promise<string> {
  const text = await files.readText(BOOT_ID);
  if (text !== undefined) return text.trim();
  throw new AppError("OS_FILE_FAILED", {
    call: "read",
    path: BOOT_ID,
    reason: "it does not exist",
  });
}

interface ProcessEnd {
  /** Resolves when the process has ended, but not after `cancel`. */
  readonly ended: Promise<void>;
  cancel(): void;
}

/** Waits for the process of a pidfd. The caller may close the descriptor at once. */
export function watchProcessEnd(pidfd: number): ProcessEnd {
  const native = osNative();
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const watch = native.watchEnd(pidfd, () => {
    resolve(undefined);
  });
  return {
    ended: promise,
    cancel: () => {
      native.cancelEnd(watch);
    },
  };
}

/**
 * Waits for a process, which need not be a child. Rejects with the signal's reason. @throws AppError with
 * OS_FILE_FAILED
 */
export async function waitForProcessEnd(
  pid: number,
  startTime: string,
  signal?: AbortSignal,
): Promise<void> {
  signal?.throwIfAborted();
  const pidfd = openProcess(pid);
  if (pidfd === undefined) return;
  const end = watchProcessEnd(pidfd);
  closeSync(pidfd);
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const onAbort = (): void => {
    resolve(undefined);
  };
  signal?.addEventListener("abort", onAbort);
  try {
    // The start time is read after the pidfd was opened. If it still matches, the pidfd is the identified process.
    if ((await readProcessStartTime(pid)) !== startTime) return;
    await Promise.race([end.ended, aborted]);
    signal?.throwIfAborted();
  } finally {
    signal?.removeEventListener("abort", onAbort);
    end.cancel();
  }
}

/** Kills the process with this pid, but not its group, and waits for its end. Succeeds if there is none. */
export async function killAndWait(pid: number): Promise<void> {
  const startTime = await readProcessStartTime(pid);
  if (startTime === undefined) return;
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (errnoOf(error) !== "ESRCH") throw toFileError(error, "kill", String(pid));
  }
  await waitForProcessEnd(pid, startTime);
}

function openProcess(pid: number): number | undefined {
  try {
    return osNative().openProcess(pid);
  } catch (error) {
    if (errnoOf(error) === "ESRCH") return undefined;
    throw toFileError(error, "pidfd_open", `/proc/${String(pid)}`);
  }
}
