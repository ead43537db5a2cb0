// SPDX-License-Identifier: Apache-2.0
// What must not stay on the host when a machine is down: bridges, mounts, namespaces and control groups of ours.
import { messageOf } from "@patchbay/core";
import { removeGroups, unmountBelow } from "@patchbay/containerd";
import { cgroupRootOf, removeOwnContainerd } from "../runtime/own-containerd.ts";
import { removeCniResults } from "./cni-results.ts";
import { removeBridges, type CleaningDeps } from "./bridges.ts";

const TIMEOUT_MS = 10_000;
/** Prefix of the names of pods' network namespaces. */
const NETNS_PREFIX = "patchbay-";
const NETNS_DIR = "/run/netns";

async function removeMounts(deps: CleaningDeps): Promise<void> {
  for (const path of await unmountBelow(deps, deps.paths.dataDir)) {
    deps.log.warn("mount was left and is removed", { path });
  }
}

async function removeNamespaces({ files, runner, paths, log }: CleaningDeps): Promise<void> {
  const pods = await files.list(paths.pods);
  const names = await files.list(NETNS_DIR);
  for (const name of names) {
    if (!pods.some((uid) => name === `${NETNS_PREFIX}${uid}`)) continue;
    await runner.run({ argv: ["ip", "netns", "del", name], timeoutMs: TIMEOUT_MS });
    log.warn("network namespace was left and is removed", { object: name });
  }
}

/** The groups of pods; those that somebody is in stay, and those of another machine are others. */
async function removePodGroups(deps: CleaningDeps): Promise<void> {
  for (const group of ["/patchbay", cgroupRootOf(deps.paths)]) await removeGroups(deps, group);
}

/** Removes what the components have left, and says so; nothing here stops the rest. */
export async function removeLeftovers(
  deps: CleaningDeps,
  bridges: readonly string[],
): Promise<void> {
  const steps = [
    removeOwnContainerd,
    removeMounts,
    removeNamespaces,
    removePodGroups,
    removeCniResults,
  ];
  for (const step of [...steps, () => removeBridges(deps, bridges)]) {
    try {
      await step(deps);
    } catch (error) {
      deps.log.warn("cannot clean up", { reason: messageOf(error), err: error });
    }
  }
}
