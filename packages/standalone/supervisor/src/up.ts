// SPDX-License-Identifier: Apache-2.0
// `patchbay up`: starts the machine unless it is up.
import { join } from "node:path";
import { AppError } from "@patchbay/base";
import {
  createClock,
  createFiles,
  createProcessRunner,
  startDetached,
  type ProcessName,
} from "@patchbay/os";
import type { Files } from "@patchbay/core/interfaces";
import { buildCommand, isRoot, printProgress, readBuild } from "./config.ts";
import { follow, type Print } from "./supervisor/follow.ts";
import { buildContainerdLayout } from "./runtime/own-containerd.ts";
import { buildPaths, type Paths } from "./data-dir/paths.ts";
import { createMachineFacts, makeDirectories } from "./prepare.ts";
import {
  findService,
  installService,
  isServiceOf,
  refreshService,
  rejectServiceConflict,
  SERVICE_NICENESS,
  startService,
} from "./host/service-unit.ts";
import { describeIgnoredFlags } from "./settings/problems.ts";
import {
  checkSettings,
  readSettings,
  storeSettings,
  type WantedSettings,
} from "./settings/settings.ts";
import { lockMachine } from "./supervisor/hold-machine.ts";
import { findSupervisor, findFailureReason, type SupervisorState } from "./supervisor/state.ts";
import { parseLastReason, planUp, pickMachineSettings } from "./up-plan.ts";

const UP_TIMEOUT_MS = 180_000;
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export interface UpOptions extends WantedSettings {
  readonly dataDir: string;
  readonly installService?: boolean;
  readonly print?: Print;
}

export type Options = UpOptions & { readonly print: Print };

export interface Deps {
  readonly files: Files;
  readonly paths: Paths;
}

export async function startSupervisor(options: Options, paths: Paths): Promise<ProcessName> {
  return startDetached({
    argv: buildCommand("supervisor", options.dataDir, pickMachineSettings(options)),
    env: { PATH },
    niceness: SERVICE_NICENESS,
    outFile: join(paths.run, "supervisor.out"),
    logFile: join(paths.logs, "supervisor.log"),
  });
}

async function writeService({ dataDir, print }: Options, files: Files): Promise<void> {
  const deps = { files, runner: createProcessRunner() };
  await installService(deps, dataDir, buildCommand("supervisor", dataDir));
  print("systemd unit patchbay.service is enabled: the machine starts at boot");
}

/** Stores the settings here, because the unit's command, which starts the supervisor, has none. */
async function storeWantedSettings(options: Options, deps: Deps): Promise<void> {
  const { lock } = await lockMachine({ ...deps, clock: createClock() });
  try {
    const machine = createMachineFacts({ ...deps, runner: createProcessRunner() });
    await storeSettings(deps, pickMachineSettings(options), machine);
  } finally {
    lock.release();
  }
}

async function startByService(options: Options, deps: Deps): Promise<ProcessName> {
  const { files, paths } = deps;
  const runner = createProcessRunner();
  await storeWantedSettings(options, deps);
  if ((await findService(files))?.isPackaged === false) {
    await refreshService({ files, runner }, buildCommand("supervisor", options.dataDir));
  }
  await startService(runner);
  options.print("systemd starts patchbay.service");
  return waitForSupervisor(files, paths);
}

async function launch(options: Options, deps: Deps): Promise<ProcessName> {
  if (options.installService === true) await writeService(options, deps.files);
  return (await isServiceOf(deps.files, options.dataDir))
    ? startByService(options, deps)
    : startSupervisor(options, deps.paths);
}

export async function waitForSupervisor(
  files: Files,
  paths: Paths,
  previousPid?: number,
): Promise<ProcessName> {
  const stop = new AbortController();
  const timeout = AbortSignal.timeout(UP_TIMEOUT_MS);
  const { promise, resolve, reject } = Promise.withResolvers<ProcessName>();
  const checkForSupervisor = (): void => {
    findSupervisor(files, paths).then((state) => {
      if (state !== undefined && state.pid !== previousPid) resolve(state);
    }, reject);
  };
  timeout.addEventListener(
    "abort",
    () => {
      reject(buildTimeoutError());
    },
    { once: true },
  );
  files.watchDirectory(paths.run, checkForSupervisor, AbortSignal.any([stop.signal, timeout]));
  checkForSupervisor();
  try {
    return await promise;
  } finally {
    stop.abort(new Error("found"));
  }
}

function buildTimeoutError(): AppError {
  const reason = `it was not ready within ${String(UP_TIMEOUT_MS / 1000)} s`;
  return new AppError("RUNTIME_START_FAILED", { component: "supervisor", reason });
}

export async function followUp(
  processName: ProcessName,
  options: Options,
  deps: Deps,
): Promise<void> {
  const { files, paths } = deps;
  const { ended, state } = await follow({
    ...deps,
    ...processName,
    print: options.print,
    activePhase: "starting",
    endPhases: ["ready", "failed"],
    timeoutMs: UP_TIMEOUT_MS,
  });
  if (state?.phase === "ready") return;
  const log = ended ? await files.readText(join(paths.logs, "supervisor.log")) : "";
  const reason = findFailureReason(state, parseLastReason(log, join(paths.run, "supervisor.out")));
  throw new AppError("RUNTIME_START_FAILED", { component: "the machine", reason });
}

async function startChecked(options: Options, deps: Deps): Promise<ProcessName> {
  await checkSettings(
    deps,
    pickMachineSettings(options),
    createMachineFacts({ ...deps, runner: createProcessRunner() }),
  );
  await makeDirectories(deps);
  return launch(options, deps);
}

async function waitForDown(processName: ProcessName, options: Options, deps: Deps): Promise<void> {
  options.print("the machine is stopping; waiting until it has stopped");
  await follow({
    ...deps,
    ...processName,
    print: options.print,
    activePhase: "stopping",
    endPhases: [],
    timeoutMs: UP_TIMEOUT_MS,
  });
}

/** Returns the starting supervisor, if any. Waits until a stopping supervisor has ended. */
async function findStarting(
  runningSupervisor: SupervisorState | undefined,
  options: Options,
  deps: Deps,
): Promise<ProcessName | undefined> {
  if (runningSupervisor === undefined || planUp(runningSupervisor.phase) === "follow")
    return runningSupervisor;
  await waitForDown(runningSupervisor, options, deps);
  return undefined;
}

async function followStartingSupervisor(
  processName: ProcessName,
  options: Options,
  deps: Deps,
): Promise<void> {
  try {
    await followUp(processName, options, deps);
  } catch (error) {
    // If another `patchbay up` has started a supervisor first, follows that supervisor.
    const competingSupervisor = await findSupervisor(deps.files, deps.paths);
    if (competingSupervisor === undefined || competingSupervisor.pid === processName.pid)
      throw error;
    await followUp(competingSupervisor, options, deps);
  }
}

async function reportRunning(options: Options, deps: Deps): Promise<void> {
  const messages = describeIgnoredFlags(pickMachineSettings(options), await readSettings(deps));
  for (const message of messages) options.print(message);
  if (options.installService === true) await writeService(options, deps.files);
}

export async function up(upOptions: UpOptions): Promise<void> {
  const options: Options = { print: printProgress, ...upOptions };
  if (!isRoot()) throw new AppError("STANDALONE_NOT_ROOT");
  const files = createFiles();
  const paths = buildPaths(options.dataDir);
  const deps = { files, paths };
  if (options.installService === true) await rejectServiceConflict(files, options.dataDir);
  buildContainerdLayout(paths); // Throws before any file is created if the path of a socket would be too long.
  const runningSupervisor = await findSupervisor(files, paths);
  const plan = planUp(runningSupervisor?.phase);
  if (plan === "report" && (runningSupervisor?.build ?? "") !== readBuild().build)
    options.print("this program is another build than the machine's; apply it: patchbay upgrade");
  if (plan === "report" || plan === "follow") await reportRunning(options, deps);
  if (plan === "report") {
    options.print(`patchbay is already up in ${options.dataDir}`);
    return;
  }
  const startingSupervisor = await findStarting(runningSupervisor, options, deps);
  await followStartingSupervisor(
    startingSupervisor ?? (await startChecked(options, deps)),
    options,
    deps,
  );
  options.print(`patchbay is up; kubeconfig: ${paths.kubeconfig}`);
}
