// SPDX-License-Identifier: Apache-2.0
// Which control groups has a runtime left? It makes a group in every hierarchy, and never removes its parent.
import { join } from "node:path";
import type { Files, ProcessRunner } from "@patchbay/core/ports";

const TIMEOUT_MS = 10_000;

/** Mount points of control groups, each hierarchy once. Source: proc(5) mountinfo. */
export function hierarchiesOf(mountinfo: string): readonly string[] {
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

async function directoriesOf({ files }: Deps, group: string): Promise<readonly string[]> {
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  return hierarchiesOf(mountinfo).map((hierarchy) => join(hierarchy, group));
}

/** What is directly below `group` in any hierarchy, each name once: groups, and the kernel's files. */
export async function listGroups(deps: Deps, group: string): Promise<readonly string[]> {
  const names = new Set<string>();
  for (const directory of await directoriesOf(deps, group)) {
    for (const name of await deps.files.list(directory)) names.add(name);
  }
  return [...names];
}

/**
 * Removes the empty groups of `group` (for example `/patchbay`) and below, in every hierarchy. What somebody is in
 * stays.
 */
export async function removeGroups(deps: Deps, group: string): Promise<void> {
  const { files, runner } = deps;
  for (const directory of await directoriesOf(deps, group)) {
    if (!(await files.exists(directory))) continue;
    // A group is a directory that only rmdir removes: its files are the kernel's. Those that are not empty stay.
    const argv = ["find", directory, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"] as const;
    await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  }
}
