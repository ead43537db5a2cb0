// SPDX-License-Identifier: Apache-2.0
// How does a process become the one supervisor of a machine, and say so?
import { readBootId, readProcessStartTime, type FileLock } from "@patchbay/os";
import type { Clock, Files } from "@patchbay/core/ports";
import { ownPid } from "../config.ts";
import { takeLock } from "../data-dir/lock.ts";
import { markOurs } from "../data-dir/ours.ts";
import type { Paths } from "../data-dir/paths.ts";
import { makeDirectories } from "../prepare.ts";
import { StateWriter, type Step } from "./state.ts";

/** A machine that no other process supervises until `lock` is released. */
export interface HeldMachine {
  readonly lock: FileLock;
  /** Of this start of the host: what other starts have left is dead. */
  readonly bootId: string;
  readonly state: StateWriter;
}

/**
 * Takes the machine's lock, in directories that are made where they are missing, and says whose they are.
 * @throws AppError with STANDALONE_NOT_OURS, and with STANDALONE_RUNS_ALREADY when another process has it.
 */
export async function holdMachine(
  deps: { readonly files: Files; readonly clock: Clock; readonly paths: Paths },
  onStep?: (step: Step) => void,
): Promise<HeldMachine> {
  const { files, paths } = deps;
  await makeDirectories({ files, paths });
  const lock = takeLock(paths);
  await markOurs(files, paths);
  const bootId = await readBootId(files);
  const pid = ownPid();
  const who = { pid, startTime: (await readProcessStartTime(pid)) ?? "", bootId };
  return { lock, bootId, state: new StateWriter(deps, who, onStep) };
}
