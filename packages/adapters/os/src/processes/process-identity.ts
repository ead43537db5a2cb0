// SPDX-License-Identifier: Apache-2.0
// Identifies and signals processes, and waits for their end. The processes need not be children.
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

/** Index of `starttime` in the fields after the command name. Source: proc(5), field 22 */
const START_TIME_INDEX = 22 - 3;

/** Identity of a process. Processes with the same PID differ in their start time. */
export interface ProcessName {
  readonly pid: number;
  readonly startTime: string;
}

/** Returns the start time in clock ticks since boot, in decimal. Returns undefined if the process does not exist. */
export async function readProcessStartTime(pid: number): Promise<string | undefined> {
  try {
    const stat = await readFile(`/proc/${String(pid)}/stat`, "utf8");
    // The command name is in parentheses, and may contain spaces and parentheses.
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
    return true; // The process has ended.
  }
}

/** Checks whether the identified process runs. Returns false for a zombie. */
export async function isRunning(name: ProcessName): Promise<boolean> {
  const { pid, startTime } = name;
  if (startTime === "" || (await readProcessStartTime(pid)) !== startTime) return false;
  return !(await hasEnded(pid));
}

/** Sends SIGTERM to the process, or SIGKILL to its group. Does nothing if the process has ended. */
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

/** @throws AppError with OS_FILE_FAILED */
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
  /** Resolves when the process has ended. Stays pending if `cancel` was called first. */
  readonly ended: Promise<void>;
  cancel(): void;
}

/** Watches the end of a process. The caller may close `pidfd` immediately. */
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

/** Waits for the end of a process. After an abort, rejects with the signal's reason. @throws AppError with OS_FILE_FAILED */
export async function waitForProcessEnd(
  pid: number,
  startTime: string,
  signal?: AbortSignal,
): Promise<void> {
  signal?.throwIfAborted();
  const pidfd = openProcess(pid);
  if (pidfd === undefined) return;
  const processEnd = watchProcessEnd(pidfd);
  closeSync(pidfd);
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const onAbort = (): void => {
    resolve(undefined);
  };
  signal?.addEventListener("abort", onAbort);
  try {
    // The pidfd is already open, so a start time that is still equal to `startTime` proves that the pidfd refers to this process.
    if ((await readProcessStartTime(pid)) !== startTime) return;
    await Promise.race([processEnd.ended, aborted]);
    signal?.throwIfAborted();
  } finally {
    signal?.removeEventListener("abort", onAbort);
    processEnd.cancel();
  }
}

/** Kills a process, but not its process group, and waits for its end. Does nothing if the process does not exist. */
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
