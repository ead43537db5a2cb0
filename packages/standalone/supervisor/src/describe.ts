// SPDX-License-Identifier: Apache-2.0
// Observes the components of a machine. Called by processes other than its supervisor, for example the CLI's doctor.
import { basename, dirname, join } from "node:path";
import { createFiles, isRunning, listReadOnlyMounts, readBootId } from "@patchbay/os";
import type { Files } from "@patchbay/core/interfaces";
import { readNumber, readFields, readText } from "./data-dir/json.ts";
import { buildHealthSocketPath, buildPaths, type Paths } from "./data-dir/paths.ts";
import { checkHealth } from "./supervisor/liveness.ts";
import {
  findSupervisor,
  readState,
  findFailureReason,
  type SupervisorPhase,
} from "./supervisor/state.ts";

export interface MachineProcess {
  readonly name: string;
  readonly runs: boolean;
  /** Whether the health check succeeds; unset if the component does not run or has no health socket. */
  readonly isResponding?: boolean;
}

export interface MachineDisk {
  readonly path: string;
  readonly sizeBytes: number;
  readonly freeBytes: number;
}

export interface MachineProcesses {
  readonly disk: MachineDisk;
  /** Phase of the supervisor; `stopped` if no supervisor runs. */
  readonly phase: SupervisorPhase;
  readonly reason: string;
  readonly processes: readonly MachineProcess[];
  /** Names of the volumes of claims that accept no writes until the pods that use them are restarted. */
  readonly readOnlyVolumes: readonly string[];
}

const HEALTH_TIMEOUT_MS = 3_000;
const RECORD_SUFFIX = ".json";
const SUPERVISOR = "supervisor";

async function observeProcess(
  files: Files,
  paths: Paths,
  name: string,
): Promise<readonly MachineProcess[]> {
  const fields = await readFields(files, join(paths.run, `${name}${RECORD_SUFFIX}`));
  const pid = readNumber(fields, "pid");
  if (pid === undefined) return [];
  const process = { pid, startTime: readText(fields, "startTime") };
  const isOfThisBoot = readText(fields, "bootId") === (await readBootId(files));
  const runs = isOfThisBoot && (await isRunning(process));
  const socket = buildHealthSocketPath(paths, name);
  if (!runs || !(await files.exists(socket))) return [{ name, runs }];
  const isResponding = await checkHealth(socket, AbortSignal.timeout(HEALTH_TIMEOUT_MS)).then(
    () => true,
    () => false,
  );
  return [{ name, runs, isResponding }];
}

async function listReadOnlyVolumes({ claims }: Paths): Promise<readonly string[]> {
  const mounts = await listReadOnlyMounts(claims);
  return mounts.map((mount) => basename(dirname(mount))).toSorted();
}

export async function describeMachine(dataDir: string): Promise<MachineProcesses> {
  const files = createFiles();
  const paths = buildPaths(dataDir);
  const supervisor = await findSupervisor(files, paths);
  const records = (await files.list(paths.run)).filter((file) => file.endsWith(RECORD_SUFFIX));
  const names = records
    .map((file) => file.slice(0, -RECORD_SUFFIX.length))
    .filter((name) => name !== SUPERVISOR);
  const processLists = await Promise.all(
    names.toSorted().map((name) => observeProcess(files, paths, name)),
  );
  const processes = processLists.flat();
  const disk = { path: dataDir, ...(await files.readSpace(dataDir)) };
  const observed = { processes, disk, readOnlyVolumes: await listReadOnlyVolumes(paths) };
  if (supervisor !== undefined)
    return { phase: supervisor.phase, reason: supervisor.reason, ...observed };
  return {
    phase: "stopped",
    reason: findFailureReason(await readState(files, paths), ""),
    ...observed,
  };
}
