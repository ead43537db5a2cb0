// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";

const TIMEOUT_MS = 10_000;

/** Returns the mount points of all cgroup hierarchies. Source: proc(5) mountinfo. */
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

/** Lists the entries of `group` in all hierarchies: the groups below it and the kernel's control files. */
export async function listCgroups(deps: Deps, group: string): Promise<readonly string[]> {
  const names = new Set<string>();
  for (const directory of await findGroupDirectories(deps, group)) {
    for (const name of await deps.files.list(directory)) names.add(name);
  }
  return [...names];
}

/** Removes `group`, for example `/patchbay`, and the groups below it, except groups with processes. */
export async function removeCgroups(deps: Deps, group: string): Promise<void> {
  const { files, runner } = deps;
  for (const directory of await findGroupDirectories(deps, group)) {
    if (!(await files.exists(directory))) continue;
    // A group can be removed only with rmdir, which fails if the group contains processes.
    const argv = ["find", directory, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"] as const;
    await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  }
}
