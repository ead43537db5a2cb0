// SPDX-License-Identifier: Apache-2.0
// What nobody knows any more: a start that was cut off, by the death of containerd, of a shim or by ours, can leave shims
// and control groups.
import { removeOrphans } from "@patchbay/containerd";
import { messageOf } from "@patchbay/core";
import { killAndWait } from "@patchbay/os";
import type { Clock, ContainerRuntime, Logger } from "@patchbay/core/ports";
import type { Sweeper } from "../pods/deps.ts";
import type { VolumeMachine } from "./volumes.ts";

/** When is looked: a start that was cut off is undone in its own time, milliseconds. */
const LOOKS_AFTER_MS: readonly number[] = [0, 3000, 30_000];

/** Without a containerd of one's own, it is its owner's matter. */
export function sweepOf(
  { files, runner, containerd, facts }: VolumeMachine,
  log: Logger,
): Sweeper["now"] {
  return async () => {
    if (containerd === undefined) return;
    const { cgroupParent } = facts;
    const deps = { files, runner, layout: containerd, kill: killAndWait, cgroupParent };
    for (const id of await removeOrphans(deps)) {
      log.warn("ended the shim of a sandbox that is gone", { object: id });
    }
  };
}

/** Sweeps until the signal is aborted. */
export function createSweeper(
  deps: { readonly sweep: Sweeper["now"]; readonly clock: Clock; readonly log: Logger },
  signal: AbortSignal,
): Sweeper {
  const { clock, log, sweep } = deps;
  const lookAfter = async (ms: number): Promise<void> => {
    try {
      await clock.sleep(ms, signal);
      await sweep();
    } catch (error) {
      // The next cut is the next chance.
      if (!signal.aborted) log.warn("cannot look for orphaned shims", { reason: messageOf(error) });
    }
  };
  const afterCut = (): void => {
    for (const ms of LOOKS_AFTER_MS) void lookAfter(ms);
  };
  return { now: sweep, afterCut };
}

/** Each connection to the runtime tells that one was cut, or that there was none. */
export function sweepAfterCuts(
  runtime: Pick<ContainerRuntime, "watch">,
  sweeper: Sweeper,
  signal: AbortSignal,
): void {
  runtime.watch((id) => {
    if (id === undefined) sweeper.afterCut();
  }, signal);
}
