// SPDX-License-Identifier: Apache-2.0
// What must not stay on the host when a machine is down: bridges, mounts, loop devices and control groups of ours.
import { messageOf } from "@patchbay/core";
import { removeGroups, unmountBelow } from "@patchbay/containerd";
import { cgroupRootOf, removeOwnContainerd } from "../runtime/own-containerd.ts";
import { removeLoops } from "./loops.ts";
import { removeCniResults } from "./cni-results.ts";
import { removeBridges, type CleaningDeps } from "./bridges.ts";

async function removeMounts(deps: CleaningDeps): Promise<void> {
  for (const path of await unmountBelow(deps, deps.paths.dataDir)) {
    deps.log.warn("removed a leftover mount", { path });
  }
}

/** The groups of pods; those that somebody is in stay, and those of another machine are others. */
async function removePodGroups(deps: CleaningDeps): Promise<void> {
  await removeGroups(deps, cgroupRootOf(deps.paths));
}

/** Removes what the components have left, and says so; nothing here stops the rest. */
export async function removeLeftovers(deps: CleaningDeps): Promise<void> {
  const steps = [removeOwnContainerd, removeMounts, removeLoops, removePodGroups, removeCniResults];
  for (const step of [...steps, removeBridges]) {
    try {
      await step(deps);
    } catch (error) {
      deps.log.warn("cannot clean up", { reason: messageOf(error), err: error });
    }
  }
}
