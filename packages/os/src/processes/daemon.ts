// SPDX-License-Identifier: Apache-2.0
// How is a service started that goes on when its starter ends, and how is it known and ended later?
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, watch } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { AppError, messageOf } from "@patchbay/core/errors";
import { sealDescriptors } from "./descriptors.ts";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { readProcessStartTime } from "./process-end.ts";
import { signalGroup } from "./process-runner.ts";

const OUT_MODE = 0o600;
const LOG_MODE = 0o640;

/** What to start. */
export interface DaemonProgram {
  readonly argv: readonly [string, ...string[]];
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Standard output, made anew. */
  readonly outFile: string;
  /** Standard error, appended. */
  readonly logFile: string;
}

/** One process for ever: a pid is used again, together with its start time it is not. */
export interface ProcessName {
  readonly pid: number;
  /** Clock ticks since boot, decimal text. */
  readonly startTime: string;
}

/** A service that was started here. */
export interface Daemon extends ProcessName {
  /** Resolves with the reason when it has ended. */
  readonly ended: Promise<string>;
}

function spawnDaemon(program: DaemonProgram, descriptors: readonly [number, number]) {
  const [file, ...args] = program.argv;
  sealDescriptors();
  return spawn(file, args, {
    cwd: "/",
    env: program.env,
    detached: true, // a session of its own: it gets no signal of the starter's terminal
    stdio: ["ignore", ...descriptors],
  });
}

/**
 * Starts a program in a session of its own; it outlives this process.
 * @throws AppError with OS_PROGRAM_MISSING, OS_FILE_FAILED
 */
export async function startDaemon(program: DaemonProgram): Promise<Daemon> {
  const out = openSync(program.outFile, "w", OUT_MODE);
  const log = openSync(program.logFile, "a", LOG_MODE);
  try {
    const child = spawnDaemon(program, [out, log]);
    const { promise: ended, resolve } = Promise.withResolvers<string>();
    child.once("exit", (code, signal) => {
      resolve(code === null ? String(signal) : `exit code ${String(code)}`);
    });
    await once(child, "spawn");
    child.unref();
    const pid = child.pid ?? 0;
    return { pid, startTime: (await readProcessStartTime(pid)) ?? "", ended };
  } catch (error) {
    const details = { program: program.argv[0] };
    if (errnoOf(error) === "ENOENT")
      throw new AppError("OS_PROGRAM_MISSING", details, { cause: error });
    throw toFileError(error, "exec", program.argv[0]);
  } finally {
    closeSync(out);
    closeSync(log);
  }
}

/** States of a process that has ended and is still in the table. Source: proc(5), field 3. */
const ENDED_STATES: readonly string[] = ["Z", "X"];

async function hasEnded(pid: number): Promise<boolean> {
  try {
    const stat = await readFile(`/proc/${String(pid)}/stat`, "utf8");
    return ENDED_STATES.includes(stat.charAt(stat.lastIndexOf(")") + 2));
  } catch {
    return true; // It went between two looks.
  }
}

/** Whether that very process runs; one that waits for its parent to notice its end does not. */
export async function isRunning(name: ProcessName): Promise<boolean> {
  const { pid, startTime } = name;
  if (startTime === "" || (await readProcessStartTime(pid)) !== startTime) return false;
  return !(await hasEnded(pid));
}

/** Sends a signal to that very process; SIGKILL goes to its whole group. Gone is success. */
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

async function findLine(file: string, prefix: string): Promise<string | undefined> {
  try {
    const text = await readFile(file, "utf8");
    // Only whole lines.
    return text
      .split("\n")
      .slice(0, -1)
      .find((line) => line.startsWith(prefix));
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw toFileError(error, "read", file);
  }
}

/**
 * The first line of a file that begins with `prefix`, as soon as it is there; the file may come later, its directory
 * must be there. Rejects with the signal's reason when it is aborted first.
 */
export async function waitForLine(
  file: string,
  prefix: string,
  signal: AbortSignal,
): Promise<string> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const look = (): void => {
    findLine(file, prefix).then((line) => {
      if (line !== undefined) resolve(line);
    }, reject);
  };
  const watcher = watch(dirname(file), (_event, name) => {
    if (name === null || name === basename(file)) look();
  });
  const onAbort = (): void => {
    reject(signal.reason instanceof Error ? signal.reason : new Error(messageOf(signal.reason)));
  };
  watcher.on("error", reject);
  signal.addEventListener("abort", onAbort, { once: true });
  look();
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
    watcher.close();
  }
}
