// SPDX-License-Identifier: Apache-2.0
// `patchbay down`: shuts guests down, stops everything, cleans the host; data stays unless it is to be purged.
import { basename, join } from "node:path";
import { isMountPoint, listProcesses, mountsBelow, shimsOf } from "@patchbay/containerd";
import { AppError } from "@patchbay/core";
import {
  createClock,
  createFiles,
  createProcessRunner,
  isRunning,
  readBootId,
  signalProcess,
} from "@patchbay/os";
import type { Files } from "@patchbay/core/ports";
import { createSilentLogger } from "@patchbay/telemetry";
import { isRoot, printProgress } from "./config.ts";
import { follow, printSeconds, type Print } from "./supervisor/follow.ts";
import { numberOf, readFields, textOf } from "./data-dir/json.ts";
import { isOurs, OF_FILE_SYSTEM } from "./data-dir/ours.ts";
import { containerdLayoutOf } from "./runtime/own-containerd.ts";
import { pathsOf, type Paths } from "./data-dir/paths.ts";
import { isInstalled, hasSystemd, stopService } from "./host/service-unit.ts";
import { holdMachine } from "./supervisor/hold-machine.ts";
import { findSupervisor, reasonOf, type Step, type SupervisorState } from "./supervisor/state.ts";

/** Guests get their grace, and cleaning its time, milliseconds. */
const DOWN_TIMEOUT_MS = 300_000;

/** What to take down. */
export interface DownOptions {
  /** Absolute. */
  readonly dataDir: string;
  /** Also deletes the data directory. */
  readonly purge?: boolean;
  /** Gets each step as it is taken; absent: standard error. */
  readonly print?: Print;
}

interface Deps {
  readonly files: Files;
  readonly paths: Paths;
  readonly print: Print;
}

/** The supervisor does it; this process watches. */
async function askSupervisor(supervisor: SupervisorState, deps: Deps): Promise<void> {
  const { files } = deps;
  if ((await isInstalled(files)) && (await hasSystemd(files))) {
    await stopService(createProcessRunner());
  }
  await signalProcess(supervisor, "SIGTERM");
  const { state } = await follow({
    ...deps,
    pid: supervisor.pid,
    startTime: supervisor.startTime,
    during: "stopping",
    until: [],
    timeoutMs: DOWN_TIMEOUT_MS,
  });
  if (state?.phase === "stopped") return;
  throw new AppError("STANDALONE_STOP_FAILED", {
    reason: reasonOf(state, "it died in the meantime"),
  });
}

/** Whether a supervisor that died, or a reboot, has left anything to end or to clean. */
async function hasRemains({ files, paths }: Deps): Promise<boolean> {
  const names = await files.list(paths.run);
  const components = names.filter(
    (name) => name.endsWith(".json") && !name.startsWith("supervisor"),
  );
  const bootId = await readBootId(files);
  for (const name of components) {
    const fields = await readFields(files, `${paths.run}/${name}`);
    const process = { pid: numberOf(fields, "pid") ?? 0, startTime: textOf(fields, "startTime") };
    if (textOf(fields, "bootId") === bootId && (await isRunning(process))) return true;
  }
  if ((await files.list(paths.pods)).length > 0) return true;
  const { socket } = containerdLayoutOf(paths);
  return shimsOf(await listProcesses(files), socket).length > 0;
}

/** No supervisor is left: this process does its work once. */
async function stopHere(deps: Deps): Promise<void> {
  const { files, paths, print } = deps;
  const clock = createClock();
  const tell = ({ afterMs, text }: Step): void => {
    print(`${printSeconds(afterMs)}  ${text}`);
  };
  const { lock, bootId, state } = await holdMachine({ files, clock, paths }, tell);
  const log = createSilentLogger();
  const runner = createProcessRunner();
  // Loaded only here: asking a supervisor needs none of it.
  const { Supervisor } = await import("./supervisor/supervisor.ts");
  const supervisor = new Supervisor({ files, clock, runner, log, paths, bootId, state });
  await state.enter("stopping");
  await supervisor.startForStop();
  await supervisor.stop();
  await state.enter("stopped");
  lock.release();
}

/**
 * Deletes the data directory; of a mount point what is in it, for it is the administrator's. The file that says whose it
 * is goes last: a purge that has died is begun anew.
 * @throws AppError with STANDALONE_NOT_OURS when something is mounted in it.
 */
async function purge({ files, paths, print }: Deps): Promise<void> {
  const { dataDir, settings } = paths;
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  const mounts = mountsBelow(mountinfo, dataDir);
  if (mounts.length > 0) {
    const reason = `${mounts[0] ?? ""} is mounted in it`;
    throw new AppError("STANDALONE_NOT_OURS", { dataDir, reason });
  }
  const kept = [OF_FILE_SYSTEM, basename(settings)];
  for (const name of await files.list(dataDir)) {
    if (!kept.includes(name)) await files.remove(join(dataDir, name));
  }
  await files.remove(settings);
  if (isMountPoint(mountinfo, dataDir)) {
    print(`${dataDir} is empty; it is a mount point, and stays`);
    return;
  }
  await files.remove(dataDir);
  print(`${dataDir} is deleted`);
}

/** A directory is taken for a machine's when a machine has said so. */
async function refuseForeign({ files, paths }: Deps): Promise<void> {
  if (isOurs(await readFields(files, paths.settings))) return;
  const reason = "it has no standalone.json of Patchbay";
  throw new AppError("STANDALONE_NOT_OURS", { dataDir: paths.dataDir, reason });
}

/**
 * Takes the machine down; one that is not up is success.
 * @throws AppError with STANDALONE_NOT_ROOT, STANDALONE_NOT_FOUND, STANDALONE_NOT_OURS, STANDALONE_STOP_FAILED
 */
export async function down(options: DownOptions): Promise<void> {
  if (!isRoot()) throw new AppError("STANDALONE_NOT_ROOT");
  const { dataDir } = options;
  const files = createFiles();
  const paths = pathsOf(options.dataDir);
  const print = options.print ?? printProgress;
  const deps: Deps = { files, paths, print };
  const supervisor = await findSupervisor(files, paths);
  if (!(await files.exists(dataDir))) throw new AppError("STANDALONE_NOT_FOUND", { dataDir });
  await refuseForeign(deps);
  if (supervisor !== undefined) {
    await askSupervisor(supervisor, deps);
    print("patchbay is down");
  } else if (await hasRemains(deps)) {
    await stopHere(deps);
    print("patchbay is down");
  } else {
    print(`patchbay is not up in ${dataDir}`);
  }
  if (options.purge === true) await purge(deps);
}
