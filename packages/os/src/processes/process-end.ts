// SPDX-License-Identifier: Apache-2.0
// When does a process end that is not a child of ours?
import { closeSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { errnoOf, isMissing, toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";

/** Position of `starttime` among the fields that follow the command name. Source: proc(5), field 22. */
const START_TIME_INDEX = 22 - 3;

/** A running process whose end is awaited. */
export interface ProcessEnd {
  /** Resolves when the process has ended; never after `cancel`. */
  readonly ended: Promise<void>;
  /** Stops waiting; may be repeated. */
  cancel(): void;
}

/** Waits for the end of the process behind a pidfd, which the caller may close at once. */
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
 * When the process was started, in clock ticks since boot as decimal text, or undefined when there is none.
 * Together with the pid it names one process, also after the pid was used again.
 */
export async function readProcessStartTime(pid: number): Promise<string | undefined> {
  try {
    const stat = await readFile(`/proc/${String(pid)}/stat`, "utf8");
    // The command name is in parentheses and may itself hold spaces and parentheses.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[START_TIME_INDEX];
  } catch (error) {
    if (isMissing(error) || errnoOf(error) === "ESRCH") return undefined;
    throw toFileError(error, "read", `/proc/${String(pid)}/stat`);
  }
}

/**
 * Resolves when that process has ended (or had already), child or not. Rejects with the signal's reason when aborted.
 * @throws AppError with OS_FILE_FAILED
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
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    // Asked after the pidfd was opened: if it is still that process, the pidfd is that process too.
    if ((await readProcessStartTime(pid)) !== startTime) return;
    await Promise.race([end.ended, aborted]);
    signal?.throwIfAborted();
  } finally {
    signal?.removeEventListener("abort", onAbort);
    end.cancel();
  }
}

function openProcess(pid: number): number | undefined {
  try {
    return osNative().openProcess(pid);
  } catch (error) {
    if (errnoOf(error) === "ESRCH") return undefined;
    throw toFileError(error, "pidfd_open", `/proc/${String(pid)}`);
  }
}
