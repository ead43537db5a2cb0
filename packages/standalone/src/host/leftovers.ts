// SPDX-License-Identifier: Apache-2.0
// What must not stay on the host when a machine is down: bridges, mounts, namespaces and control groups of ours.
import { join } from "node:path";
import { messageOf } from "@patchbay/core";
import { removeBridges, type CleaningDeps } from "./bridges.ts";

const TIMEOUT_MS = 10_000;
/** Prefix of the names of pods' network namespaces. */
const NETNS_PREFIX = "patchbay-";
const NETNS_DIR = "/run/netns";
const CGROUP_DIR = "/sys/fs/cgroup";

/** Mount points below a directory, the innermost first. Source: proc(5) mountinfo. */
export function mountsBelow(mountinfo: string, directory: string): readonly string[] {
  return mountinfo
    .split("\n")
    .map((line) => (line.split(" ")[4] ?? "").replaceAll("\\040", " "))
    .filter((path) => path.startsWith(`${directory}/`))
    .reverse();
}

async function removeMounts({ files, runner, paths, log }: CleaningDeps): Promise<void> {
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  for (const path of mountsBelow(mountinfo, paths.dataDir)) {
    await runner.run({ argv: ["umount", path], timeoutMs: TIMEOUT_MS });
    log.warn("mount was left and is removed", { path });
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

/** The parent groups, when no pod (of another machine either) is in them. */
async function removeGroups({ files, runner }: CleaningDeps): Promise<void> {
  const controllers = await files.list(CGROUP_DIR);
  const parents = ["", ...controllers].map((name) => join(CGROUP_DIR, name, "patchbay"));
  for (const parent of parents) {
    if (!(await files.exists(parent))) continue;
    // Fails while somebody is in it, which is right.
    await runner.run({ argv: ["rmdir", parent], timeoutMs: TIMEOUT_MS });
  }
}

/** Removes what the components have left, and says so; nothing here stops the rest. */
export async function removeLeftovers(
  deps: CleaningDeps,
  bridges: readonly string[],
): Promise<void> {
  const steps = [removeMounts, removeNamespaces, removeGroups];
  for (const step of [...steps, () => removeBridges(deps, bridges)]) {
    try {
      await step(deps);
    } catch (error) {
      deps.log.warn("cannot clean up", { reason: messageOf(error), err: error });
    }
  }
}
