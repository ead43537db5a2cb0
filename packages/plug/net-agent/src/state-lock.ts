// SPDX-License-Identifier: Apache-2.0
// One net-agent at a time works with a directory of state: two would run plugins on the same sandboxes.
import type { Clock, Files, Logger } from "@patchbay/core/ports";
import { takeFileLock, type FileLock } from "@patchbay/os";

/** The kernel tells nobody when a lock is free, and waiting for it would hold up the process. */
const AGAIN_MS = 2_000;

/**
 * Takes the directory's lock, which the process that has it gives back when it ends. While another one has it, that is said
 * once, and waited for. Undefined: the signal was aborted first.
 */
export async function holdState(
  directory: string,
  deps: { readonly files: Files; readonly clock: Clock; readonly log: Logger },
  signal: AbortSignal,
): Promise<FileLock | undefined> {
  const { files, clock, log } = deps;
  await files.ensureDirectory(directory, 0o700);
  let isTold = false;
  while (!signal.aborted) {
    const lock = takeFileLock(`${directory}/lock`);
    if ("release" in lock) return lock;
    if (!isTold) {
      log.warn("another net-agent works on this node; waiting until it ends", {
        pid: lock.heldBy,
        directory,
      });
    }
    isTold = true;
    await clock.sleep(AGAIN_MS, signal).catch(() => undefined); // aborted: seen above
  }
  return undefined;
}
