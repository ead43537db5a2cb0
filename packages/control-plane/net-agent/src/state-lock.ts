// SPDX-License-Identifier: Apache-2.0
// Lock on the state directory, so that only one net-agent runs plugins on a node.
import type { Clock, Logger } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import { acquireFileLock, claimStateFormat, type FileLock } from "@patchbay/os";

/** Interval between attempts to get the lock, in milliseconds. The agent polls, because a blocking lock call would stop the event loop. */
const LOCK_RETRY_INTERVAL_MS = 2_000;

/** Format of the files in the directory. A change needs the steps in docs/upgrade.md. */
const STATE_FORMAT = 1;

/** Waits for the lock. Returns undefined if the signal is aborted. The kernel releases the lock when the process exits. */
export async function lockState(
  directory: string,
  deps: { readonly files: Files; readonly clock: Clock; readonly log: Logger },
  signal: AbortSignal,
): Promise<FileLock | undefined> {
  const { files, clock, log } = deps;
  await files.ensureDirectory(directory, 0o700);
  let isLogged = false;
  while (!signal.aborted) {
    const lock = acquireFileLock(`${directory}/lock`);
    if ("release" in lock) {
      await claimStateFormat(files, directory, STATE_FORMAT);
      return lock;
    }
    if (!isLogged) {
      log.warn("another net-agent works on this node; waiting until it ends", {
        pid: lock.holderPid,
        directory,
      });
    }
    isLogged = true;
    await clock.sleep(LOCK_RETRY_INTERVAL_MS, signal).catch(() => undefined);
  }
  return undefined;
}
