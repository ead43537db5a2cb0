// SPDX-License-Identifier: Apache-2.0
// Starts processes that outlive this process, or that share its terminal.
import { spawn, type SpawnOptions } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, writeFileSync } from "node:fs";
import { constants, getPriority } from "node:os";
import { AppError } from "@patchbay/base";
import { sealDescriptors } from "../descriptors.ts";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { type ProcessName, readProcessStartTime } from "./process-identity.ts";

const OUTPUT_MODE = 0o600;
const LOG_MODE = 0o640;
/** Default umask of programs. A stricter umask would prevent launchers from reading images that containerd unpacks. */
const UMASK = 0o022;

interface DetachedProgram {
  readonly argv: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
  /** From -20 to 19. Defaults to that of this process. */
  readonly niceness?: number | undefined;
  /** File to which standard output is written. It is truncated when the program starts. */
  readonly outFile: string;
  readonly logFile: string;
}

export interface DetachedProcess extends ProcessName {
  readonly ended: Promise<string>;
}

function spawnWithUmask(
  umask: number,
  [file, ...args]: readonly [string, ...string[]],
  options: SpawnOptions,
) {
  sealDescriptors();
  const previousUmask = process.umask(umask);
  try {
    return spawn(file, args, options);
  } finally {
    process.umask(previousUmask);
  }
}

/** Gives the session of a process a nice value, because nice values of processes only count within a session. Source: sched(7). */
export function prioritizeSession(pid: number, niceness = getPriority()): void {
  try {
    if (niceness !== 0) writeFileSync(`/proc/${String(pid)}/autogroup`, String(niceness));
  } catch {
    // The process has ended, or the kernel has no autogroups.
  }
}

/** Starts a program that outlives this process. @throws AppError with OS_PROGRAM_MISSING, OS_FILE_FAILED */
export async function startDetached(program: DetachedProgram): Promise<DetachedProcess> {
  const outFd = openSync(program.outFile, "w", OUTPUT_MODE);
  const logFd = openSync(program.logFile, "a", LOG_MODE);
  const ownNiceness = getPriority();
  const { argv, niceness = ownNiceness } = program;
  const prefix = ["nice", "-n", String(niceness - ownNiceness)] as const;
  try {
    const child = spawnWithUmask(UMASK, niceness === ownNiceness ? argv : [...prefix, ...argv], {
      cwd: "/",
      env: program.env,
      detached: true, // In a new session, the program gets no signals of the terminal.
      stdio: ["ignore", outFd, logFd],
    });
    const { promise: ended, resolve } = Promise.withResolvers<string>();
    child.once("exit", (code, signal) => {
      resolve(code === null ? String(signal) : `exit code ${String(code)}`);
    });
    await once(child, "spawn");
    child.unref();
    const pid = child.pid ?? 0;
    prioritizeSession(pid, niceness);
    return { pid, startTime: (await readProcessStartTime(pid)) ?? "", ended };
  } catch (error) {
    const details = { program: program.argv[0] };
    if (errnoOf(error) === "ENOENT")
      throw new AppError("OS_PROGRAM_MISSING", details, { cause: error });
    throw toFileError(error, "exec", program.argv[0]);
  } finally {
    closeSync(outFd);
    closeSync(logFd);
  }
}

const SIGNAL_EXIT_CODE_BASE = 128;

/**
 * Runs a program in the terminal and process group of this process, with the same environment. Returns its exit code,
 * or 128 + signal number. @throws AppError with OS_PROGRAM_MISSING, OS_FILE_FAILED
 */
export async function runInForeground(
  argv: readonly [string, ...string[]],
  umask = UMASK,
): Promise<number> {
  const [file] = argv;
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const child = spawnWithUmask(umask, argv, { stdio: "inherit" });
  child.once("error", (error) => {
    const isMissing = errnoOf(error) === "ENOENT";
    const missingError = new AppError("OS_PROGRAM_MISSING", { program: file }, { cause: error });
    reject(isMissing ? missingError : toFileError(error, "exec", file));
  });
  child.once("exit", (code, signal) => {
    resolve(code ?? SIGNAL_EXIT_CODE_BASE + constants.signals[signal ?? "SIGKILL"]);
  });
  return promise;
}
