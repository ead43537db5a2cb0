// SPDX-License-Identifier: Apache-2.0
// By what is the growth of images watched? By containerd's own tool, where the containerd is the machine's own.
import { listUnpacking, readSnapshotter } from "@patchbay/containerd";
import type { DaemonContext } from "@patchbay/daemon";
import { createPullGuard, NO_PULL_GUARD, type PullGuard } from "../images/pull-guard.ts";
import type { VolumeMachine } from "./volumes.ts";

/** The guard of this machine's pulls. */
export function pullGuardOf(
  { clock, log, signal }: DaemonContext,
  { containerd: layout, files, runner }: Pick<VolumeMachine, "containerd" | "files" | "runner">,
): PullGuard {
  if (layout === undefined) return NO_PULL_GUARD;
  return createPullGuard({
    clock,
    files,
    log,
    signal,
    imagesDir: layout.root,
    listUnpacking: async () =>
      listUnpacking({ runner, layout }, await readSnapshotter(files, layout)),
  });
}
