// SPDX-License-Identifier: Apache-2.0
// Kills shims and removes control groups that containerd leaves behind when it crashes during the start of a sandbox.
import { removeOrphans } from "@patchbay/containerd";
import { messageOf, type Clock, type Logger } from "@patchbay/base";
import { killAndWait } from "@patchbay/os";
import type { ContainerRuntime } from "@patchbay/core/interfaces";
import type { Sweeper } from "../pods/deps.ts";
import type { VolumeMachine } from "./volumes.ts";

/** Delays of the sweeps after a new connection to containerd. At the first sweep, containerd may still be undoing interrupted starts. */
const SWEEP_DELAYS_MS: readonly number[] = [0, 3000, 30_000];

/** Returns a function that kills orphaned shims. The function does nothing when another program manages containerd. */
export function createSweep(
  { files, runner, containerd, facts }: VolumeMachine,
  log: Logger,
): Sweeper["sweep"] {
  return async () => {
    if (containerd === undefined) return;
    const { cgroupParent } = facts;
    const deps = { files, runner, layout: containerd, kill: killAndWait, cgroupParent };
    for (const id of await removeOrphans(deps)) {
      log.warn("killed the shim of a removed sandbox", { object: id });
    }
  };
}

export function createSweeper(
  deps: { readonly sweep: Sweeper["sweep"]; readonly clock: Clock; readonly log: Logger },
  signal: AbortSignal,
): Sweeper {
  const { clock, log, sweep } = deps;
  const sweepAfter = async (ms: number): Promise<void> => {
    try {
      await clock.sleep(ms, signal);
      await sweep();
    } catch (error) {
      if (!signal.aborted)
        log.warn("orphaned shims cannot be listed", { reason: messageOf(error) });
    }
  };
  const sweepAfterInterruption = (): void => {
    for (const ms of SWEEP_DELAYS_MS) void sweepAfter(ms);
  };
  return { sweep, sweepAfterInterruption };
}

/** Sweeps after each new connection to the runtime. The watch reports a new connection as a change without an id. */
export function sweepAfterReconnects(
  runtime: Pick<ContainerRuntime, "watch">,
  sweeper: Sweeper,
  signal: AbortSignal,
): void {
  runtime.watch((id) => {
    if (id === undefined) sweeper.sweepAfterInterruption();
  }, signal);
}
