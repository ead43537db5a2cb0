// SPDX-License-Identifier: Apache-2.0
// The emptyDir volumes of a pod.
import { join } from "node:path";
import { names, type Pod, type PodVolume } from "@patchbay/api";
import type { Deps } from "../deps.ts";
import { volumeDirectory, type PodPaths } from "./paths.ts";
import { parseBytes } from "./quantity.ts";
import { runProgram } from "../run-program.ts";

async function isMountPoint(deps: Deps, path: string): Promise<boolean> {
  const mounts = (await deps.files.readText("/proc/self/mountinfo")) ?? "";
  return mounts.split("\n").some((line) => line.split(" ")[4] === path);
}

async function makeVolume(deps: Deps, pod: Pod, at: readonly [PodPaths, PodVolume]): Promise<void> {
  const [paths, volume] = at;
  const directory = volumeDirectory(paths, volume.name);
  const { runAsUser = 0, runAsGroup = runAsUser, fsGroup } = pod.spec.securityContext ?? {};
  const owner = ["-o", String(runAsUser), "-g", String(fsGroup ?? runAsGroup)] as const;
  await runProgram(deps.runner, "install", "-d", "-m", "2770", ...owner, directory);
  if (volume.emptyDir?.medium !== "Memory" || (await isMountPoint(deps, directory))) return;
  const size = parseBytes(volume.emptyDir.sizeLimit);
  const options = [
    "nosuid,nodev,mode=2770",
    ...[`uid=${String(runAsUser)}`, `gid=${String(fsGroup ?? runAsGroup)}`],
    ...(size === undefined ? [] : [`size=${String(size)}`]),
  ];
  await runProgram(
    deps.runner,
    "mount",
    "-t",
    "tmpfs",
    "-o",
    options.join(","),
    "tmpfs",
    directory,
  );
}

/** Makes the volumes that are not there; repeated, it changes nothing. */
export async function prepareVolumes(deps: Deps, pod: Pod, paths: PodPaths): Promise<void> {
  await deps.files.ensureDirectory(paths.directory);
  for (const volume of pod.spec.volumes ?? []) {
    if (volume.emptyDir !== undefined) await makeVolume(deps, pod, [paths, volume]);
  }
}

/** Removes the volumes and the directory of the pod. */
export async function removeVolumes(deps: Deps, paths: PodPaths): Promise<void> {
  const parent = join(paths.directory, names.EMPTY_DIR_VOLUMES);
  for (const name of await deps.files.list(parent)) {
    const directory = join(parent, name);
    if (await isMountPoint(deps, directory)) await runProgram(deps.runner, "umount", directory);
  }
  await deps.files.remove(paths.directory);
}
