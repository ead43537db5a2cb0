// SPDX-License-Identifier: Apache-2.0
// One supervisor for one data directory: a file in it that only root may open, locked; its holder's death gives it back.
import { AppError } from "@patchbay/core";
import { takeFileLock, type FileLock } from "@patchbay/os";
import type { Paths } from "./paths.ts";

/**
 * Takes the lock of a data directory, whose directories must be there.
 * @throws AppError with STANDALONE_RUNS_ALREADY when another process holds it.
 */
export function takeLock({ dataDir, lock }: Paths): FileLock {
  const outcome = takeFileLock(lock);
  if ("release" in outcome) return outcome;
  throw new AppError("STANDALONE_RUNS_ALREADY", { dataDir, pid: outcome.heldBy });
}
