// SPDX-License-Identifier: Apache-2.0
// The supervisor's process, and the API server's; started by `patchbay up` and by the supervisor only.
import { messageOf } from "@patchbay/core";
import { createClock, createFiles, createProcessRunner, readProcessStartTime } from "@patchbay/os";
import { createLogger } from "@patchbay/telemetry";
import { runApiServer } from "./api-server.ts";
import { ownPid, parseArguments, stopSignal, type ProcessArguments } from "./config.ts";
import { takeLock } from "./lock.ts";
import { pathsOf } from "./paths.ts";
import { readBootId, StateWriter } from "./state.ts";
import { Supervisor } from "./supervisor.ts";

const { role, dataDir, ...wanted } = parseArguments(process.argv);
const log = createLogger({ component: role, level: "info" });
process.stdout.on("error", () => undefined);

async function supervise(settings: Omit<ProcessArguments, "role" | "dataDir">): Promise<void> {
  const signal = stopSignal();
  const files = createFiles();
  const clock = createClock();
  const paths = pathsOf(dataDir);
  const lock = await takeLock(dataDir);
  const bootId = await readBootId(files);
  const pid = ownPid();
  const who = { pid, startTime: (await readProcessStartTime(pid)) ?? "", bootId };
  const state = new StateWriter({ files, clock, paths }, who);
  await state.enter("starting");
  const runner = createProcessRunner();
  const supervisor = new Supervisor({ files, clock, runner, log, paths, bootId, state });
  try {
    await supervisor.start(settings);
  } catch (error) {
    await state.enter("failed", messageOf(error));
    throw error;
  }
  await state.enter("ready");
  log.info("everything is ready", { dataDir });
  if (!signal.aborted) {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    signal.addEventListener(
      "abort",
      () => {
        resolve(undefined);
      },
      { once: true },
    );
    await promise;
  }
  await state.enter("stopping");
  await supervisor.stop();
  await state.enter("stopped");
  lock.release();
}

try {
  if (role === "apiserver") {
    await runApiServer({ dataDir });
  } else {
    await supervise(wanted);
  }
  process.exitCode = 0;
} catch (error) {
  log.error("failed", { reason: messageOf(error), err: error });
  process.exitCode = 1;
}
// Components that were adopted are still watched, which would keep this process.
process.exit();
