// SPDX-License-Identifier: Apache-2.0
// Checks and mounts host paths. Launchers may use only directories that an administrator enabled for VMs (hostDisk).
import { KUBEVIRTS, readStorageConfig } from "@patchbay/api";
import type { Pod, PodVolume } from "@patchbay/api/kubernetes";
import type { Store } from "@patchbay/core/interfaces";
import { buildVolumeError } from "./content/volume-files.ts";
import type { VolumeDeps } from "./deps.ts";
import { buildHostDiskPath } from "./layout.ts";

/** Returns a function that reads the KubeVirt object on each call, so that a changed configuration applies immediately. */
export function createHostDiskDirectoriesReader(
  store: Pick<Store, "list">,
): VolumeDeps["readHostDiskDirectories"] {
  return async () => readStorageConfig((await store.list(KUBEVIRTS)).items[0]).hostDisks;
}

function findProblem(path: string, directories: readonly string[] | undefined): string | undefined {
  if (directories === undefined) {
    return `hostPath ${path}: host disks are disabled; to enable them, add HostDisk to configuration.developerConfiguration.featureGates of the KubeVirt object`;
  }
  if (directories.includes(path)) return undefined;
  const allowedDirectories = directories.length === 0 ? "none" : directories.join(", ");
  return `hostPath ${path} is not one of configuration.hostDiskDirectories of the KubeVirt object (${allowedDirectories})`;
}

/**
 * Mounts a host directory. Without feature gate HostDisk, rejects all; otherwise rejects those that the KubeVirt object does not list.
 * @throws AppError with RUNTIME_VOLUME_FAILED, OS_PATH_REFUSED
 */
export async function mountHostDisk(
  { disk, readHostDiskDirectories, node }: VolumeDeps,
  pod: Pod,
  volume: { readonly name: string; readonly hostPath: NonNullable<PodVolume["hostPath"]> },
): Promise<string> {
  const { name, hostPath } = volume;
  const path = buildHostDiskPath(node.podsDir, pod.metadata.uid ?? "", name);
  if ((await disk.listMounts(path)).includes(path)) return path;
  const problem = findProblem(hostPath.path, await readHostDiskDirectories());
  if (problem !== undefined) throw buildVolumeError(name, problem);
  await disk.mountDirectory(path, hostPath.path);
  return path;
}

/** Required kind of file, by type of the host path. Source: HostPathType of core/v1. */
const REQUIRED_KINDS: Readonly<Record<string, string | undefined>> = {
  "": undefined,
  Directory: "Directory",
  DirectoryOrCreate: "Directory",
  File: "File",
  FileOrCreate: "File",
  Socket: "Socket",
  CharDevice: "CharDevice",
  BlockDevice: "BlockDevice",
};

type HostPath = NonNullable<PodVolume["hostPath"]>;

async function createIfMissing(
  { disk, files }: VolumeDeps,
  { path, type }: HostPath,
): Promise<void> {
  if ((await disk.readKind(path)) !== undefined) return;
  if (type === "DirectoryOrCreate") await disk.makeDirectory(path, { uid: 0, gid: 0, mode: 0o755 });
  if (type === "FileOrCreate") await files.writeAtomic(path, "", 0o644);
}

/** @throws AppError with RUNTIME_VOLUME_FAILED */
export async function findHostPath(
  deps: VolumeDeps,
  volume: { readonly name: string; readonly hostPath: HostPath },
): Promise<string> {
  const { name, hostPath } = volume;
  const { path, type = "" } = hostPath;
  if (!path.startsWith("/") || path.split("/").includes("..")) {
    throw buildVolumeError(name, `hostPath ${path} must be absolute and without ..`);
  }
  if (!Object.hasOwn(REQUIRED_KINDS, type))
    throw buildVolumeError(name, `hostPath has no type ${type}`);
  await createIfMissing(deps, hostPath);
  const [kind, requiredKind] = [await deps.disk.readKind(path), REQUIRED_KINDS[type]];
  if (kind === undefined) throw buildVolumeError(name, `hostPath ${path} does not exist`);
  if (requiredKind !== undefined && kind !== requiredKind) {
    throw buildVolumeError(name, `hostPath ${path} is a ${kind}, not a ${requiredKind}`);
  }
  return path;
}
