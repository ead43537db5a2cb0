// SPDX-License-Identifier: Apache-2.0
// Kills all processes that a program started, even in other process groups and sessions. A mark in the environment
// identifies these processes. Only marked processes start marked processes, so none can start if a scan finds none.
import { randomUUID } from "node:crypto";
import { close, open, read } from "node:fs";
import { readdir } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { errnoOf } from "../files/file-errors.ts";
import { isRunning, readProcessStartTime, type ProcessName } from "./process-identity.ts";

const MARK_VARIABLE = "PATCHBAY_PROCESS_FAMILY";
/** Milliseconds between scans while processes are killed. A process that hangs in the kernel is abandoned after KILL_ROUNDS_MAX scans. */
const KILL_ROUND_MS = 10;
const KILL_ROUNDS_MAX = 200;

export function createProcessMark(family: string): string {
  return `${family}/${randomUUID()}`;
}

export function addProcessMark(
  env: Readonly<Record<string, string>>,
  mark: string,
): Readonly<Record<string, string>> {
  return { ...env, [MARK_VARIABLE]: mark };
}

/** Size of the read buffer, in bytes. Most environments are smaller. */
const READ_BUFFER_BYTES = 65_536;
const [openFile, readInto, closeFile] = [promisify(open), promisify(read), promisify(close)];

/** Reads a file with the shared buffer. With `readFile`, garbage collection took half of the processor time. */
async function readWith(buffer: Buffer, path: string): Promise<string> {
  const fd = await openFile(path, "r");
  try {
    let text = "";
    for (;;) {
      const { bytesRead } = await readInto(fd, buffer, 0, buffer.length, null);
      text += buffer.toString("latin1", 0, bytesRead);
      if (bytesRead < buffer.length) return text;
    }
  } finally {
    await closeFile(fd);
  }
}

async function readMark(pid: string, buffer: Buffer): Promise<string | undefined> {
  try {
    const environment = `\0${await readWith(buffer, `/proc/${pid}/environ`)}`;
    const start = environment.indexOf(`\0${MARK_VARIABLE}=`);
    if (start < 0) return undefined;
    const value = environment.slice(start + MARK_VARIABLE.length + 2).split("\0", 1);
    return Buffer.from(value[0] ?? "", "latin1").toString();
  } catch {
    return undefined; // The process has ended, or is a kernel thread.
  }
}

async function listMarkedPids(matchesMark: (mark: string) => boolean): Promise<readonly number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const buffer = Buffer.allocUnsafe(READ_BUFFER_BYTES);
  const markedPids: number[] = [];
  // Reads files one after another, because all reads share the buffer.
  for (const pid of pids) {
    const mark = await readMark(pid, buffer);
    if (mark !== undefined && matchesMark(mark)) markedPids.push(Number(pid));
  }
  return markedPids;
}

/** Kills the process. Returns its identity; undefined if it has ended. */
async function kill(pid: number): Promise<ProcessName | undefined> {
  const startTime = await readProcessStartTime(pid);
  if (startTime === undefined) return undefined;
  try {
    process.kill(pid, "SIGKILL");
    return { pid, startTime };
  } catch (error) {
    if (errnoOf(error) === "ESRCH") return undefined;
    throw error;
  }
}

async function killAll(matchesMark: (mark: string) => boolean): Promise<void> {
  // A killed process loses its environment before it closes its files. Such processes are therefore awaited by their identity.
  let ending: readonly ProcessName[] = [];
  for (let round = 0; round < KILL_ROUNDS_MAX; round += 1) {
    const markedPids = await listMarkedPids(matchesMark);
    const killed = await Promise.all(markedPids.map(kill));
    const running = await Promise.all(ending.map(isRunning));
    ending = [
      ...ending.filter((_name, index) => running[index] === true),
      ...killed.filter((name) => name !== undefined),
    ];
    if (markedPids.length === 0 && ending.length === 0) return;
    await sleep(KILL_ROUND_MS);
  }
}

/** Kills all processes with this mark. If `mark` is the name of a family, kills all processes of the family. */
export async function killMarked(mark: string): Promise<void> {
  await killAll((foundMark) => foundMark === mark || foundMark.startsWith(`${mark}/`));
}

/** Milliseconds between scheduled scans. A scan is expensive, because it reads the environment of every process on the machine. */
const SCAN_INTERVAL_MS = 1000;

let endedMarks = new Set<string>();
let runningScan: Promise<void> | undefined;

async function scan(): Promise<void> {
  while (endedMarks.size > 0) {
    const marks = endedMarks;
    endedMarks = new Set();
    await killAll((mark) => marks.has(mark));
    await sleep(SCAN_INTERVAL_MS, undefined, { ref: false });
  }
}

/** Kills the processes with this mark in the next scheduled scan. One scan kills the processes that all ended programs left behind. */
export function scheduleKill(mark: string): void {
  endedMarks.add(mark);
  runningScan ??= scan()
    .catch(() => undefined) // If /proc cannot be read, no process can be found.
    .finally(() => {
      runningScan = undefined;
    });
}
