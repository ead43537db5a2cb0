// SPDX-License-Identifier: Apache-2.0
// How is a process started that goes on when its starter ends?
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { AppError } from "@patchbay/core/errors";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { sealDescriptors } from "./descriptors.ts";
import { readProcessStartTime, type ProcessName } from "./process-name.ts";

const OUT_MODE = 0o600;
const LOG_MODE = 0o640;
/** With a caller's 077, containerd unpacks images that no other user can read, launchers among them. */
const UMASK = 0o022;

/** What to start. */
export interface DetachedProgram {
  readonly argv: readonly [string, ...string[]];
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Standard output, made anew. */
  readonly outFile: string;
  /** Standard error, appended. */
  readonly logFile: string;
}

/** A process that was started here. */
export interface DetachedProcess extends ProcessName {
  /** Resolves with the reason when it has ended. */
  readonly ended: Promise<string>;
}

function spawnDetached(program: DetachedProgram, descriptors: readonly [number, number]) {
  const [file, ...args] = program.argv;
  sealDescriptors();
  const callersUmask = process.umask(UMASK);
  try {
    return spawn(file, args, {
      cwd: "/",
      env: program.env,
      detached: true, // a session of its own: it gets no signal of the starter's terminal
      stdio: ["ignore", ...descriptors],
    });
  } finally {
    process.umask(callersUmask);
  }
}

/**
 * Starts a program in a session of its own; it outlives this process.
 * @throws AppError with OS_PROGRAM_MISSING, OS_FILE_FAILED
 */
export async function startDetached(program: DetachedProgram): Promise<DetachedProcess> {
  const out = openSync(program.outFile, "w", OUT_MODE);
  const log = openSync(program.logFile, "a", LOG_MODE);
  try {
    const child = spawnDetached(program, [out, log]);
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
