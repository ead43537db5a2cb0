// SPDX-License-Identifier: Apache-2.0
// `patchbay up`: brings the machine up, or says that it is up.
import { join } from "node:path";
import { AppError } from "@patchbay/core";
import { createFiles, createProcessRunner, startDetached, type ProcessName } from "@patchbay/os";
import type { Files } from "@patchbay/core/ports";
import { commandFor, isRoot, printProgress } from "./config.ts";
import { follow, type Print } from "./supervisor/follow.ts";
import { containerdLayoutOf } from "./runtime/own-containerd.ts";
import { pathsOf, type Paths } from "./data-dir/paths.ts";
import { machineFacts, makeDirectories } from "./prepare.ts";
import { installService } from "./host/service-unit.ts";
import { ignoredFlags } from "./settings/problems.ts";
import { checkSettings, readSettings, type WantedSettings } from "./settings/settings.ts";
import { findSupervisor, reasonOf, type SupervisorState } from "./supervisor/state.ts";
import { lastReason, planUp, wantedOf } from "./up-plan.ts";

/** How long everything may take to come up, milliseconds. */
const UP_TIMEOUT_MS = 180_000;
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** What to bring up. */
export interface UpOptions extends WantedSettings {
  /** Absolute. */
  readonly dataDir: string;
  /** Also writes a systemd unit that does the same at boot. */
  readonly installService?: boolean;
  /** Gets each step as it is taken; absent: standard error. */
  readonly print?: Print;
}

type Options = UpOptions & { readonly print: Print };

interface Deps {
  readonly files: Files;
  readonly paths: Paths;
}

async function startSupervisor(options: Options, paths: Paths): Promise<ProcessName> {
  return startDetached({
    argv: commandFor("supervisor", options.dataDir, wantedOf(options)),
    env: { PATH },
    outFile: join(paths.run, "supervisor.out"),
    logFile: join(paths.logs, "supervisor.log"),
  });
}

/** Writes the unit and says so. */
async function writeService(
  options: Options,
  files: Files,
  what: "enable" | "start",
): Promise<"enabled" | "started" | "written"> {
  const command = commandFor("supervisor", options.dataDir, wantedOf(options));
  const how = await installService({ files, runner: createProcessRunner() }, command, what);
  const said = {
    enabled: "is enabled: it starts at the next boot",
    started: "is enabled and started",
    written: "is written; systemd does not run here",
  };
  options.print(`systemd unit patchbay.service ${said[how]}`);
  return how;
}

/** By systemd where that is wanted and possible, else as a process of its own. */
async function launch(options: Options, files: Files, paths: Paths): Promise<ProcessName> {
  if (options.installService === true) {
    const how = await writeService(options, files, "start");
    if (how === "started") return waitForSupervisor(files, paths);
  }
  return startSupervisor(options, paths);
}

/** The supervisor that systemd starts, as soon as it has said something. */
async function waitForSupervisor(files: Files, paths: Paths): Promise<ProcessName> {
  const stop = new AbortController();
  const late = AbortSignal.timeout(UP_TIMEOUT_MS);
  const { promise, resolve, reject } = Promise.withResolvers<ProcessName>();
  const look = (): void => {
    findSupervisor(files, paths).then((state) => {
      if (state !== undefined) resolve(state);
    }, reject);
  };
  late.addEventListener(
    "abort",
    () => {
      reject(tooLate());
    },
    { once: true },
  );
  files.watchDirectory(paths.run, look, AbortSignal.any([stop.signal, late]));
  look();
  try {
    return await promise;
  } finally {
    stop.abort(new Error("found"));
  }
}

function tooLate(): AppError {
  const reason = `it was not ready within ${String(UP_TIMEOUT_MS / 1000)} s`;
  return new AppError("RUNTIME_START_FAILED", { component: "supervisor", reason });
}

async function followUp(name: ProcessName, options: Options, deps: Deps): Promise<void> {
  const { files, paths } = deps;
  const { ended, state } = await follow({
    ...deps,
    ...name,
    print: options.print,
    during: "starting",
    until: ["ready", "failed"],
    timeoutMs: UP_TIMEOUT_MS,
  });
  if (state?.phase === "ready") return;
  const log = ended ? await files.readText(join(paths.logs, "supervisor.log")) : "";
  const reason = reasonOf(state, lastReason(log));
  throw new AppError("RUNTIME_START_FAILED", { component: "the machine", reason });
}

/** A supervisor, once it is known that it can do what is asked. */
async function startAnew(options: Options, deps: Deps): Promise<ProcessName> {
  await checkSettings(deps, wantedOf(options), machineFacts(createProcessRunner()));
  await makeDirectories(deps);
  return launch(options, deps.files, deps.paths);
}

/** Waits for the end of a supervisor that is going down. */
async function waitForDown(name: ProcessName, options: Options, deps: Deps): Promise<void> {
  options.print("the machine is going down; waiting for that");
  await follow({
    ...deps,
    ...name,
    print: options.print,
    during: "stopping",
    until: [],
    timeoutMs: UP_TIMEOUT_MS,
  });
}

/** The supervisor that is on its way up; one that is on its way down is waited for. */
async function findStarting(
  running: SupervisorState | undefined,
  options: Options,
  deps: Deps,
): Promise<ProcessName | undefined> {
  if (running === undefined || planUp(running.phase) === "follow") return running;
  await waitForDown(running, options, deps);
  return undefined;
}

async function followUpOrOther(name: ProcessName, options: Options, deps: Deps): Promise<void> {
  try {
    await followUp(name, options, deps);
  } catch (error) {
    // Somebody else's supervisor may have been faster.
    const other = await findSupervisor(deps.files, deps.paths);
    if (other === undefined || other.pid === name.pid) throw error;
    await followUp(other, options, deps);
  }
}

/** A machine that is up, or on its way, is as it was asked for first; its unit can still be written. */
async function leaveAlone(options: Options, deps: Deps): Promise<void> {
  const ignored = ignoredFlags(wantedOf(options), await readSettings(deps));
  for (const line of ignored) options.print(line);
  if (options.installService !== true) return;
  await writeService(options, deps.files, "enable");
}

/**
 * Brings everything up and returns when it is ready. A machine that is up already is left alone.
 * @throws AppError with STANDALONE_NOT_ROOT, RUNTIME_START_FAILED, and before anything is made STANDALONE_SETTING_INVALID,
 * CONTAINERD_PATH_TOO_LONG
 */
export async function up(asked: UpOptions): Promise<void> {
  const options: Options = { print: printProgress, ...asked };
  if (!isRoot()) throw new AppError("STANDALONE_NOT_ROOT");
  const files = createFiles();
  const paths = pathsOf(options.dataDir);
  const deps = { files, paths };
  containerdLayoutOf(paths); // before anything is made
  const running = await findSupervisor(files, paths);
  const plan = planUp(running?.phase);
  if (plan === "report" || plan === "follow") await leaveAlone(options, deps);
  if (plan === "report") {
    options.print(`patchbay is already up in ${options.dataDir}`);
    return;
  }
  const starting = await findStarting(running, options, deps);
  await followUpOrOther(starting ?? (await startAnew(options, deps)), options, deps);
  options.print(`patchbay is up; kubeconfig: ${paths.kubeconfig}`);
}
