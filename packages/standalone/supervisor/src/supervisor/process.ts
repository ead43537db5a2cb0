// SPDX-License-Identifier: Apache-2.0
import { messageOf, type Logger } from "@patchbay/base";
import { createClock, createFiles, createProcessRunner, setOomScore } from "@patchbay/os";

import { createStopSignal, type ProcessArguments } from "../config.ts";
import { buildPaths } from "../data-dir/paths.ts";
import { lockMachine } from "./hold-machine.ts";
import { Supervisor } from "./supervisor.ts";

const KEEPALIVE_INTERVAL_MS = 24 * 3_600_000;
/** oom_score_adj of this process and its children, so that the kernel kills pods first. Source: KubeletOOMScoreAdj. */
const OOM_SCORE = -999;

/** @throws AppError with RUNTIME_START_FAILED, STANDALONE_SETTING_INVALID */
export async function supervise(
  { dataDir, ...settings }: Omit<ProcessArguments, "role">,
  log: Logger,
): Promise<void> {
  const signal = createStopSignal();
  const files = createFiles();
  const clock = createClock();
  const paths = buildPaths(dataDir);
  const { lock, bootId, state } = await lockMachine({ files, clock, paths });
  await state.enterPhase("starting");
  if (!(await setOomScore(OOM_SCORE)))
    log.warn("services are not protected from the kernel's OOM killer", {
      reason: "this machine does not allow lowering oom_score_adj",
    });
  const runner = createProcessRunner();
  const supervisor = new Supervisor({ files, clock, runner, log, paths, bootId, state });
  try {
    await supervisor.start(settings);
  } catch (error) {
    await state.enterPhase("failed", messageOf(error));
    throw error;
  }
  await state.enterPhase("ready");
  log.info("everything is ready", { dataDir });
  // The timer keeps the event loop alive. Components do not, because they are detached.
  while (!signal.aborted) await clock.sleep(KEEPALIVE_INTERVAL_MS, signal).catch(() => undefined);
  await state.enterPhase("stopping");
  await supervisor.stop();
  await state.enterPhase("stopped");
  lock.release();
}
