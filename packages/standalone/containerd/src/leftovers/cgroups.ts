// SPDX-License-Identifier: Apache-2.0
// Control groups that a runtime has left. It creates a group in every hierarchy, and never removes the parent group.
import { join } from "node:path";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";

const TIMEOUT_MS = 10_000;

/** Returns the mount points of all hierarchies. Source: proc(5) mountinfo. */
export function parseHierarchies(mountinfo: string): readonly string[] {
  const points = mountinfo.split("\n").flatMap((line) => {
    const [mount = "", filesystem = ""] = line.split(" - ");
    return /^cgroup2? /.test(filesystem) ? [mount.split(" ")[4] ?? ""] : [];
  });
  return [...new Set(points)];
}

interface Deps {
  readonly files: Files;
  readonly runner: ProcessRunner;
}

async function findGroupDirectories({ files }: Deps, group: string): Promise<readonly string[]> {
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  return parseHierarchies(mountinfo).map((hierarchy) => join(hierarchy, group));
}

/** Returns the groups below `group`, and names of the kernel's files. */
export async function listGroups(deps: Deps, group: string): Promise<readonly string[]> {
  const names = new Set<string>();
  for (const directory of await findGroupDirectories(deps, group)) {
    for (const name of await deps.files.list(directory)) names.add(name);
  }
  return [...names];
}

/** Removes `group` (for example `/patchbay`) and the groups below it, unless processes are in them. */
export async function removeGroups(deps: Deps, group: string): Promise<void> {
  const { files, runner } = deps;
  for (const directory of await findGroupDirectories(deps, group)) {
    if (!(await files.exists(directory))) continue;
    // Only rmdir removes a group; it fails for groups in use.
    const argv = ["find", directory, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"] as const;
    await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  }
}
