// SPDX-License-Identifier: Apache-2.0
// `patchbay down`: shuts down guests, stops all components and cleans the host. Deletes data only with `--purge`.
import { join } from "node:path";
import { listProcesses, findShims } from "@patchbay/containerd";
import type { Files } from "@patchbay/core/interfaces";
import { type Paths, buildPaths } from "./data-dir/paths.ts";
import { buildContainerdLayout } from "./runtime/own-containerd.ts";
import {
  isRecordedRunning,
  findSupervisor,
  findFailureReason,
  type Step,
  type SupervisorState,
} from "./supervisor/state.ts";
import { AppError } from "@patchbay/base";
import { createClock, createFiles, createProcessRunner, signalProcess } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { isRoot, printProgress, readBuild } from "./config.ts";
import { follow, printSeconds, type Print } from "./supervisor/follow.ts";
import { purge, rejectUnmarked } from "./data-dir/ownership.ts";
import { unregisterMachine } from "./host/machines.ts";
import { findService, isServiceOf, stopService, uninstallService } from "./host/service-unit.ts";
import { lockMachine } from "./supervisor/hold-machine.ts";

/** Returns whether components, pods or shims remain, for example after a crash of the supervisor. */
export async function hasRemains(files: Files, paths: Paths): Promise<boolean> {
  const recordFiles = (await files.list(paths.run)).filter(
    (name) => name.endsWith(".json") && !name.startsWith("supervisor"),
  );
  for (const name of recordFiles) {
    if (await isRecordedRunning(files, join(paths.run, name))) return true;
  }
  if ((await files.list(paths.pods)).length > 0) return true;
  const { socket } = buildContainerdLayout(paths);
  return findShims(await listProcesses(files), socket).length > 0;
}

const DOWN_TIMEOUT_MS = 300_000;

export interface DownOptions {
  readonly dataDir: string;
  /** Deletes the data directory, and implies `uninstallService`. */
  readonly purge?: boolean;
  readonly uninstallService?: boolean;
  readonly print?: Print;
}

interface Deps {
  readonly files: Files;
  readonly paths: Paths;
  readonly print: Print;
}

async function stopSupervisor(supervisor: SupervisorState, deps: Deps): Promise<void> {
  const { files, paths } = deps;
  if (await isServiceOf(files, paths.dataDir)) await stopService(createProcessRunner());
  await signalProcess(supervisor, "SIGTERM");
  const { state } = await follow({
    ...deps,
    pid: supervisor.pid,
    startTime: supervisor.startTime,
    activePhase: "stopping",
    endPhases: [],
    timeoutMs: DOWN_TIMEOUT_MS,
  });
  if (state?.phase === "stopped") return;
  throw new AppError("STANDALONE_STOP_FAILED", {
    reason: findFailureReason(state, "it died while this command waited"),
  });
}

async function stopWithoutSupervisor(deps: Deps): Promise<void> {
  const { files, paths, print } = deps;
  const clock = createClock();
  const printStep = ({ afterMs, text }: Step): void => {
    print(`${printSeconds(afterMs)}  ${text}`);
  };
  const { lock, bootId, state } = await lockMachine({ files, clock, paths }, printStep);
  const log = createSilentLogger();
  const runner = createProcessRunner();
  // The module is loaded only here, because it is not needed when a supervisor runs.
  const { Supervisor } = await import("./supervisor/supervisor.ts");
  const { build } = readBuild();
  const supervisor = new Supervisor({ files, clock, runner, log, paths, bootId, build, state });
  await state.enterPhase("stopping");
  await supervisor.startForStop();
  await supervisor.stop();
  await state.enterPhase("stopped");
  lock.release();
}

async function endService(isWanted: boolean, { files, paths, print }: Deps): Promise<void> {
  const { dataDir } = paths;
  if (!isWanted) {
    const service = await findService(files);
    if (service?.dataDir === dataDir && service.startsAtBoot)
      print("it starts again at the next boot, unless: patchbay down --uninstall-service");
    return;
  }
  if (await uninstallService({ files, runner: createProcessRunner() }, dataDir))
    print("systemd unit patchbay.service is removed: the machine does not start at boot");
}

export async function down(options: DownOptions): Promise<void> {
  if (!isRoot()) throw new AppError("STANDALONE_NOT_ROOT");
  const { dataDir } = options;
  const files = createFiles();
  const paths = buildPaths(options.dataDir);
  const print = options.print ?? printProgress;
  const deps: Deps = { files, paths, print };
  const supervisor = await findSupervisor(files, paths);
  if (!(await files.exists(dataDir))) throw new AppError("STANDALONE_NOT_FOUND", { dataDir });
  await rejectUnmarked(deps);
  if (supervisor !== undefined) {
    await stopSupervisor(supervisor, deps);
    print("patchbay is down");
  } else if (await hasRemains(files, paths)) {
    await stopWithoutSupervisor(deps);
    print("patchbay is down");
  } else {
    print(`patchbay is not up in ${dataDir}`);
  }
  const { purge: isPurge = false, uninstallService: isUninstall = false } = options;
  await endService(isPurge || isUninstall, deps);
  if (!isPurge) return;
  await purge(deps);
  await unregisterMachine(files, dataDir);
}
