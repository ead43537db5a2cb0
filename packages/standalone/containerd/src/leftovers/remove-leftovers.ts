// SPDX-License-Identifier: Apache-2.0
// Removes orphaned shims of a running containerd, and all remains of a containerd that has ended.
import { join, basename, dirname } from "node:path";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";
import { ctr } from "../ctr.ts";
import type { ContainerdLayout } from "../layout.ts";
import { listCgroups, removeCgroups } from "./cgroups.ts";
import { unmountBelow } from "./mounts.ts";
import {
  listDescendants,
  findContainerId,
  listProcesses,
  findShims,
  listShimDescendants,
} from "./shims.ts";
import { removeShimSockets, SHIM_SOCKETS } from "./shim-sockets.ts";

/** Pattern of the control groups of containers. Source: containerd CRI plugin, identifiers of 32 bytes. */
const CONTAINER_GROUP_PATTERN = /^[0-9a-f]{64}$/;
/** Path of the containers' bundles, relative to the state directory. Source: containerd, runtime v2 and CRI's namespace. */
const BUNDLES_PATH = "io.containerd.runtime.v2.task/k8s.io";

interface OrphanDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly layout: ContainerdLayout;
  /** Kills a process and waits until the process has ended. Idempotent. */
  readonly kill: (pid: number) => Promise<void>;
  readonly cgroupParent: string;
}

/**
 * Kills the shims of containers that containerd lost in a crash, and removes these containers' control groups.
 * @returns the ids of the containers whose shims were killed
 * @throws AppError with CONTAINERD_FAILED when containerd does not respond
 */
export async function removeOrphans(deps: OrphanDeps): Promise<readonly string[]> {
  const { files, layout, kill, cgroupParent } = deps;
  const processes = await listProcesses(files);
  const shims = findShims(processes, layout.socket);
  const groups = (await listCgroups(deps, cgroupParent)).filter((name) =>
    CONTAINER_GROUP_PATTERN.test(name),
  );
  if (shims.length + groups.length === 0) return [];
  // Lists the containers last, so that new shims do not look like orphans: containerd records a container before it starts the shim.
  const knownIds = (await ctr(deps, ["containers", "ls", "--quiet"])).split("\n");
  const ids: string[] = [];
  for (const shim of shims) {
    const id = findContainerId(processes, shim);
    if (id === undefined || knownIds.includes(id)) continue;
    for (const pid of listDescendants(processes, [shim]).toReversed()) await kill(pid);
    await unmountBelow(deps, join(layout.state, BUNDLES_PATH, id));
    await removeCgroups(deps, join(cgroupParent, id));
    ids.push(id);
  }
  for (const name of groups) {
    if (!knownIds.includes(name)) await removeCgroups(deps, join(cgroupParent, name));
  }
  return ids;
}

const TIMEOUT_MS = 10_000;

interface LeftoverDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly layout: ContainerdLayout;
  readonly bootId: string;
  /** Kills a process and waits until the process has ended. Idempotent. */
  readonly kill: (pid: number) => Promise<void>;
}

interface Leftovers {
  readonly processes: number;
  readonly mounts: number;
}

async function removeEmptyDirectories({ files, runner }: LeftoverDeps): Promise<void> {
  const parent = dirname(SHIM_SOCKETS);
  // Does nothing if `parent` contains other files, because then another containerd uses the directories.
  if ((await files.list(parent)).join() !== basename(SHIM_SOCKETS)) return;
  const argv = ["rmdir", "--ignore-fail-on-non-empty", SHIM_SOCKETS, parent] as const;
  await runner.run({ argv, timeoutMs: TIMEOUT_MS });
}

/** Kills the processes of a stopped containerd, and removes its mounts, sockets and state. Preserves images. */
export async function removeContainerdLeftovers(deps: LeftoverDeps): Promise<Leftovers> {
  const { files, layout, kill } = deps;
  // The list is reversed, so that containers are killed before their shims.
  const pids = listShimDescendants(await listProcesses(files), layout.socket).toReversed();
  for (const pid of pids) await kill(pid);
  const mounts = await unmountBelow(deps, layout.directory);
  await removeShimSockets(deps);
  await removeEmptyDirectories(deps);
  for (const path of [layout.state, layout.runDirectory]) await files.remove(path);
  return { processes: pids.length, mounts: mounts.length };
}
