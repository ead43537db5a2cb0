// SPDX-License-Identifier: Apache-2.0
import { AppError, type Clock } from "@patchbay/base";
import { acquireFileLock, type FileLock, readBootId, readProcessStartTime } from "@patchbay/os";
import type { Paths } from "../data-dir/paths.ts";
import type { Files } from "@patchbay/core/interfaces";
import { ownPid, readBuild } from "../config.ts";
import { markDirectory } from "../data-dir/ownership.ts";
import { makeDirectories } from "../prepare.ts";
import { StateWriter, type Step } from "./state.ts";

/**
 * Acquires the machine's lock, which the kernel releases when this process ends.
 * @throws AppError with STANDALONE_RUNS_ALREADY when another process has acquired the lock
 */
export function acquireLock({ dataDir, lock }: Paths): FileLock {
  const outcome = acquireFileLock(lock);
  if ("release" in outcome) return outcome;
  throw new AppError("STANDALONE_RUNS_ALREADY", { dataDir, pid: outcome.holderPid });
}

/** Machine that no other process can supervise until `lock` is released. */
interface LockedMachine {
  readonly lock: FileLock;
  readonly bootId: string;
  readonly state: StateWriter;
}

/** @throws AppError with STANDALONE_NOT_OURS, FORMAT_TOO_NEW, and STANDALONE_RUNS_ALREADY when another process has acquired the lock */
export async function lockMachine(
  deps: { readonly files: Files; readonly clock: Clock; readonly paths: Paths },
  onStep?: (step: Step) => void,
): Promise<LockedMachine> {
  const { files, paths } = deps;
  await makeDirectories({ files, paths });
  const lock = acquireLock(paths);
  await markDirectory(files, paths);
  const bootId = await readBootId(files);
  const pid = ownPid();
  const startTime = (await readProcessStartTime(pid)) ?? "";
  const identity = { pid, startTime, bootId, ...readBuild() };
  return { lock, bootId, state: new StateWriter(deps, identity, onStep) };
}
