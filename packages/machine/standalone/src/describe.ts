// SPDX-License-Identifier: Apache-2.0
// What runs of a machine, as whoever looks from beside it sees it.
import { join } from "node:path";
import { createFiles, isRunning, readBootId } from "@patchbay/os";
import type { Files } from "@patchbay/core/ports";
import { numberOf, readFields, textOf } from "./data-dir/json.ts";
import { healthSocketOf, pathsOf, type Paths } from "./data-dir/paths.ts";
import { askHealth } from "./supervisor/liveness.ts";
import { findSupervisor, readState, reasonOf, type SupervisorPhase } from "./supervisor/state.ts";

/** One component. */
export interface MachineProcess {
  readonly name: string;
  readonly runs: boolean;
  /** Absent: nobody can ask it. */
  readonly answers?: boolean;
}

/** All of them, by name, and who keeps them. */
export interface MachineProcesses {
  /** `stopped` where none runs. */
  readonly phase: SupervisorPhase;
  /** Why it failed; empty where it did not say. */
  readonly reason: string;
  readonly all: readonly MachineProcess[];
}

/** Longest wait for an answer, milliseconds. */
const ANSWER_MS = 3_000;
const NOTE = ".json";
const SUPERVISOR = "supervisor";

/** A component whose process is noted; none for a note of something else. */
async function lookAt(
  files: Files,
  paths: Paths,
  name: string,
): Promise<readonly MachineProcess[]> {
  const fields = await readFields(files, join(paths.run, `${name}${NOTE}`));
  const pid = numberOf(fields, "pid");
  if (pid === undefined) return [];
  const process = { pid, startTime: textOf(fields, "startTime") };
  const isOfThisBoot = textOf(fields, "bootId") === (await readBootId(files));
  const runs = isOfThisBoot && (await isRunning(process));
  const socket = healthSocketOf(paths, name);
  if (!runs || !(await files.exists(socket))) return [{ name, runs }];
  const answers = await askHealth(socket, AbortSignal.timeout(ANSWER_MS)).then(
    () => true,
    () => false,
  );
  return [{ name, runs, answers }];
}

/**
 * Looks at the processes that are noted in the data directory; changes nothing.
 * @throws AppError with OS_FILE_FAILED for whoever may not read it
 */
export async function describeMachine(dataDir: string): Promise<MachineProcesses> {
  const files = createFiles();
  const paths = pathsOf(dataDir);
  const supervisor = await findSupervisor(files, paths);
  const notes = (await files.list(paths.run)).filter((file) => file.endsWith(NOTE));
  const names = notes
    .map((file) => file.slice(0, -NOTE.length))
    .filter((name) => name !== SUPERVISOR);
  const looked = await Promise.all(names.toSorted().map((name) => lookAt(files, paths, name)));
  const all = looked.flat();
  if (supervisor !== undefined) return { phase: supervisor.phase, reason: supervisor.reason, all };
  return { phase: "stopped", reason: reasonOf(await readState(files, paths), ""), all };
}
