// SPDX-License-Identifier: Apache-2.0
// Where is kept who may have which image? In files; names that were added are containerd's to tell.
import { listAdded } from "@patchbay/containerd";
import type { Logger } from "@patchbay/core/ports";
import type { AccessDeps } from "../images/access.ts";
import { createGrants, type Grants } from "../images/grants.ts";
import type { ImageKeeping } from "../images/keep-images.ts";
import type { VolumeMachine } from "./volumes.ts";

/** What is remembered of images. */
export interface ImageMemory extends AccessDeps, Pick<ImageKeeping, "listAdded"> {
  readonly grants: Grants;
}

/** `directory` keeps who may have what. Without a containerd of one's own nobody adds images by name. */
export function imageMemoryOf(
  machine: Pick<VolumeMachine, "containerd" | "files" | "runner">,
  directory: string,
  log: Logger,
): ImageMemory {
  const { containerd: layout, files, runner } = machine;
  const grants = createGrants({ files, log, directory });
  if (layout === undefined) return { grants, listAdded: () => Promise.resolve([]) };
  return {
    grants,
    isMarked: async (name) => (await listAdded({ runner, layout }, name)).length > 0,
    listAdded: () => listAdded({ runner, layout }),
  };
}
