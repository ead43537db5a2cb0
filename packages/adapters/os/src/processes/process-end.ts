// SPDX-License-Identifier: Apache-2.0
// When does a process end that is not a child of ours?
import { closeSync } from "node:fs";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";
import { readProcessStartTime } from "./process-name.ts";

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
  signal?.addEventListener("abort", onAbort);
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

/** Kills the process that has the pid now, and no other of its group, and waits for its end; none is success. */
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
