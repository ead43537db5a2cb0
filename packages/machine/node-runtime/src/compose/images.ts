// SPDX-License-Identifier: Apache-2.0
import { listAdded, listUnpacking, readSnapshotter } from "@patchbay/containerd";
import type { Logger } from "@patchbay/core/ports";
import { type AccessDeps, createGrants, type Grants } from "../images/access.ts";
import type { ImageGarbageDeps } from "../images/garbage.ts";
import type { VolumeMachine } from "./volumes.ts";
import type { DaemonContext } from "@patchbay/daemon";
import { createPullGuard, NO_PULL_GUARD, type PullGuard } from "../images/pull-guard.ts";

export interface ImageDeps extends AccessDeps, Pick<ImageGarbageDeps, "listAdded"> {
  readonly grants: Grants;
}

/** `directory` stores the grants. Without a containerd of its own the node cannot see which images users added. */
export function createImageMemory(
  machine: Pick<VolumeMachine, "containerd" | "files" | "runner">,
  directory: string,
  log: Logger,
): ImageDeps {
  const { containerd: layout, files, runner } = machine;
  const grants = createGrants({ files, log, directory });
  if (layout === undefined) return { grants, listAdded: () => Promise.resolve([]) };
  return {
    grants,
    isMarkedAsAdded: async (name) => (await listAdded({ runner, layout }, name)).length > 0,
    listAdded: () => listAdded({ runner, layout }),
  };
}

/** containerd's own tool is needed to measure unpacked layers. */
export function choosePullGuard(
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
