// SPDX-License-Identifier: Apache-2.0
// Shims that nobody knows any more: a start that was cut off, by the death of containerd or by ours, can leave one.
import { removeOrphanShims } from "@patchbay/containerd";
import { messageOf } from "@patchbay/core";
import { killAndWait } from "@patchbay/os";
import type { Clock, ContainerRuntime, Logger } from "@patchbay/ports";
import type { PodDeps } from "../pods/deps.ts";
import type { VolumeMachine } from "./volumes.ts";

/** When is looked after a connection was made: a start that was cut off is undone in its own time, milliseconds. */
const LOOKS_AFTER_MS: readonly number[] = [0, 3000, 30_000];

/** Without a containerd of one's own, it is its owner's matter. */
export function sweepOf(
  { files, runner, containerd, facts }: VolumeMachine,
  log: Logger,
): PodDeps["sweep"] {
  return async () => {
    if (containerd === undefined) return;
    const { cgroupParent } = facts;
    const deps = { files, runner, layout: containerd, kill: killAndWait, cgroupParent };
    for (const id of await removeOrphanShims(deps)) {
      log.warn("shim of a sandbox that is gone was left and is ended", { object: id });
    }
  };
}

/** Sweeps each time that a connection to the runtime was made, until the signal is aborted. */
export function sweepAfterCuts(
  deps: Pick<PodDeps, "sweep"> & {
    readonly runtime: Pick<ContainerRuntime, "watch">;
    readonly clock: Clock;
    readonly log: Logger;
  },
  signal: AbortSignal,
): void {
  const { clock, log, runtime, sweep } = deps;
  const lookAfter = async (ms: number): Promise<void> => {
    try {
      await clock.sleep(ms, signal);
      await sweep();
    } catch (error) {
      // The next connection is the next chance.
      if (!signal.aborted) log.warn("shims cannot be looked for", { reason: messageOf(error) });
    }
  };
  runtime.watch((id) => {
    if (id === undefined) for (const ms of LOOKS_AFTER_MS) void lookAfter(ms);
  }, signal);
}
