// SPDX-License-Identifier: Apache-2.0
// `patchbay upgrade`: replaces the supervisor and the services of a running machine by those of this program, while its pods run.
import { join } from "node:path";
import { AppError, messageOf } from "@patchbay/base";
import { findShims, listProcesses } from "@patchbay/containerd";
import type { Files } from "@patchbay/core/interfaces";
import { createFiles, createProcessRunner, signalProcess, waitForProcessEnd } from "@patchbay/os";
import { buildCommand, isRoot, printProgress, readBuild, type Build } from "./config.ts";
import { readFields, readNumber } from "./data-dir/json.ts";
import { buildPaths, type Paths } from "./data-dir/paths.ts";
import { findService, isServiceOf, refreshService, startService } from "./host/service-unit.ts";
import { buildContainerdLayout } from "./runtime/own-containerd.ts";
import { readSettings } from "./settings/settings.ts";
import { findSupervisor, type SupervisorState } from "./supervisor/state.ts";
import { followUp, startSupervisor, waitForSupervisor, type Deps, type Options } from "./up.ts";

export interface UpgradeOptions {
  readonly dataDir: string;
  readonly print?: (line: string) => void;
}

export interface Upgraded {
  /** Version that ran before; empty if the machine did not record it. */
  readonly from: string;
  readonly to: string;
  readonly restarted: readonly string[];
  readonly podsBefore: number;
  /** Number of pods that ran before and still run. */
  readonly podsKept: number;
}

function parseVersion(version: string): readonly number[] {
  return (/^(\d+)\.(\d+)\.(\d+)/.exec(version) ?? []).slice(1).map(Number);
}

function isOlder(version: string, other: string): boolean {
  const [own, theirs] = [parseVersion(version), parseVersion(other)];
  const index = own.findIndex((part, position) => part !== theirs[position]);
  return index >= 0 && (own[index] ?? 0) < (theirs[index] ?? 0);
}

/** Returns why this program cannot replace the running one, or undefined. */
export function findUpgradeProblem(
  running: Pick<SupervisorState, "phase" | "version"> | undefined,
  { version }: Build,
): string | undefined {
  if (running === undefined)
    return "the machine does not run; start it with this program: patchbay up";
  if (running.phase !== "ready")
    return `the machine is ${running.phase}; repeat the command when it is ready`;
  const from = running.version ?? "";
  if (!isOlder(version, from)) return undefined;
  return `the machine runs ${from}, and this program is the older ${version}, which may not read the newer data; restore a backup of ${version} instead`;
}

function listPods(files: Files, paths: Paths): Promise<readonly number[]> {
  const { socket } = buildContainerdLayout(paths);
  return listProcesses(files).then((processes) => findShims(processes, socket));
}

async function readStartTimes({ files, paths }: Deps): Promise<ReadonlyMap<string, number>> {
  const names = (await files.list(paths.run)).filter(
    (name) => name.endsWith(".json") && name !== "supervisor.json",
  );
  const times = names.map(async (name) => {
    const startedAtMs = readNumber(await readFields(files, join(paths.run, name)), "startedAtMs");
    return [name.slice(0, -".json".length), startedAtMs ?? 0] as const;
  });
  return new Map(await Promise.all(times));
}

/** Ends the supervisor by SIGKILL, because it would stop the machine on SIGTERM. The next supervisor adopts or restarts the services. */
async function replaceSupervisor(
  old: SupervisorState,
  options: Options,
  deps: Deps,
): Promise<void> {
  const { files, paths } = deps;
  const { dataDir } = options;
  const runner = createProcessRunner();
  const isService = await isServiceOf(files, dataDir);
  if (isService && (await findService(files))?.isPackaged === false)
    await refreshService({ files, runner }, buildCommand("supervisor", dataDir));
  await signalProcess(old, "SIGKILL");
  await waitForProcessEnd(old.pid, old.startTime);
  // systemd restarts only a supervisor that it has started.
  if (isService) await startService(runner);
  const started = isService
    ? await waitForSupervisor(files, paths, old.pid)
    : await startSupervisor(options, paths);
  await followUp(started, options, deps);
}

export async function upgrade(upgradeOptions: UpgradeOptions): Promise<Upgraded> {
  const options: Options = { print: printProgress, ...upgradeOptions };
  if (!isRoot()) throw new AppError("STANDALONE_NOT_ROOT");
  const deps: Deps = { files: createFiles(), paths: buildPaths(options.dataDir) };
  const running = await findSupervisor(deps.files, deps.paths);
  const own = readBuild();
  const problem = findUpgradeProblem(running, own);
  if (running === undefined || problem !== undefined)
    throw new AppError("STANDALONE_UPGRADE_REFUSED", { reason: problem ?? "" });
  await readSettings(deps); // Rejects data of a newer version before anything is changed.
  const pods = await listPods(deps.files, deps.paths);
  const timesBefore = await readStartTimes(deps);
  const report = { from: running.version ?? "", to: own.version, podsBefore: pods.length };
  if ((running.build ?? "") === own.build)
    return { ...report, restarted: [], podsKept: pods.length };
  try {
    await replaceSupervisor(running, options, deps);
  } catch (error) {
    throw new AppError("STANDALONE_UPGRADE_FAILED", { reason: messageOf(error) }, { cause: error });
  }
  const podsAfter = new Set(await listPods(deps.files, deps.paths));
  const timesAfter = await readStartTimes(deps);
  const restarted = [...timesAfter].filter(([name, atMs]) => atMs !== timesBefore.get(name));
  return {
    ...report,
    restarted: restarted.map(([name]) => name).toSorted(),
    podsKept: pods.filter((pid) => podsAfter.has(pid)).length,
  };
}
