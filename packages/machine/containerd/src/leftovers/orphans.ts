// SPDX-License-Identifier: Apache-2.0
// Shims and control groups of containers that are no more. A containerd that dies in the middle of a start does not know
// its shim afterwards; a runc whose shim dies goes on, and makes a group that nobody takes away.
import { join } from "node:path";
import type { Files, ProcessRunner } from "@patchbay/core/ports";
import { ctr } from "../ctr.ts";
import type { ContainerdLayout } from "../layout.ts";
import { listGroups, removeGroups } from "./cgroups.ts";
import { unmountBelow } from "./mounts.ts";
import { familyOf, idOfShim, listProcesses, shimsOf } from "./shims.ts";

/** Name of a container's group: its id. Source: containerd CRI plugin, identifiers of 32 bytes. */
const GROUP = /^[0-9a-f]{64}$/;
/** Where the bundles of containers are, below the state. Source: containerd, runtime v2 and CRI's namespace. */
const BUNDLES = "io.containerd.runtime.v2.task/k8s.io";

/** The host, and a containerd that runs. */
export interface OrphanDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly layout: ContainerdLayout;
  /** Kills that process alone, and waits for its end; gone is success. */
  readonly kill: (pid: number) => Promise<void>;
  /** Control group above those of containers. */
  readonly cgroupParent: string;
}

/**
 * Ends the shims whose container the running containerd does not have, with all that runs below them, and removes the
 * empty groups of such containers.
 * @returns the containers of the shims
 * @throws AppError with CONTAINERD_FAILED when it cannot be asked
 */
export async function removeOrphans(deps: OrphanDeps): Promise<readonly string[]> {
  const { files, layout, kill, cgroupParent } = deps;
  const all = await listProcesses(files);
  const shims = shimsOf(all, layout.socket);
  const groups = (await listGroups(deps, cgroupParent)).filter((name) => GROUP.test(name));
  if (shims.length + groups.length === 0) return [];
  // Asked after these were listed: a container is known before its shim is started, and that before its group is made.
  const known = (await ctr(deps, ["containers", "ls", "--quiet"])).split("\n");
  const ids: string[] = [];
  for (const shim of shims) {
    const id = idOfShim(all, shim);
    if (id === undefined || known.includes(id)) continue;
    for (const pid of familyOf(all, [shim]).toReversed()) await kill(pid);
    await unmountBelow(deps, join(layout.state, BUNDLES, id));
    await removeGroups(deps, join(cgroupParent, id));
    ids.push(id);
  }
  for (const name of groups) {
    if (!known.includes(name)) await removeGroups(deps, join(cgroupParent, name));
  }
  return ids;
}
