// SPDX-License-Identifier: Apache-2.0
// `patchbay down`: shuts guests down, stops everything, cleans the host; data stays unless it is to be purged.
import { AppError } from "@patchbay/core";
import { createClock, createFiles, createProcessRunner, signalProcess } from "@patchbay/os";
import type { Files } from "@patchbay/core/ports";
import { createSilentLogger } from "@patchbay/telemetry";
import { isRoot, printProgress } from "./config.ts";
import { follow, printSeconds, type Print } from "./supervisor/follow.ts";
import { pathsOf, type Paths } from "./data-dir/paths.ts";
import { purge, refuseForeign } from "./data-dir/purge.ts";
import { isInstalled, hasSystemd, stopService } from "./host/service-unit.ts";
import { holdMachine } from "./supervisor/hold-machine.ts";
import { hasRemains } from "./supervisor/remains.ts";
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
  } else if (await hasRemains(files, paths)) {
    await stopHere(deps);
    print("patchbay is down");
  } else {
    print(`patchbay is not up in ${dataDir}`);
  }
  if (options.purge === true) await purge(deps);
}
