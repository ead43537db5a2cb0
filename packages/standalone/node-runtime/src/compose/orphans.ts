// SPDX-License-Identifier: Apache-2.0
// Ends shims and control groups that the runtime lost when a sandbox start was interrupted by a crash.
import { removeOrphans } from "@patchbay/containerd";
import { messageOf, type Clock, type Logger } from "@patchbay/base";
import { killAndWait } from "@patchbay/os";
import type { ContainerRuntime } from "@patchbay/core/interfaces";
import type { Sweeper } from "../pods/deps.ts";
import type { VolumeMachine } from "./volumes.ts";

/** Delays of the sweeps after a lost connection. containerd needs time to undo an interrupted start itself. */
const SWEEP_DELAYS_MS: readonly number[] = [0, 3000, 30_000];

/** Returns a sweep that does nothing when another program manages containerd. */
export function createSweep(
  { files, runner, containerd, facts }: VolumeMachine,
  log: Logger,
): Sweeper["now"] {
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
  deps: { readonly sweep: Sweeper["now"]; readonly clock: Clock; readonly log: Logger },
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
  const afterInterruption = (): void => {
    for (const ms of SWEEP_DELAYS_MS) void sweepAfter(ms);
  };
  return { now: sweep, afterInterruption };
}

/** Sweeps after each new connection, including the first. The runtime reports a new connection without an id. */
export function sweepAfterReconnects(
  runtime: Pick<ContainerRuntime, "watch">,
  sweeper: Sweeper,
  signal: AbortSignal,
): void {
  runtime.watch((id) => {
    if (id === undefined) sweeper.afterInterruption();
  }, signal);
}
