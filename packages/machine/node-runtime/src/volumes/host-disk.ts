// SPDX-License-Identifier: Apache-2.0
// Directories of the node with files that VMs may have as disks: those that the cluster's configuration names, and no others.
import { KUBEVIRTS, storageConfigOf, type Pod, type PodVolume } from "@patchbay/api";
import type { Store } from "@patchbay/core/ports";
import { volumeFailed } from "./content/file-set.ts";
import type { VolumeDeps } from "./deps.ts";
import { hostDiskPath } from "./layout.ts";

/** Asks the API server, each time anew: what was taken back is given to nobody from then on. */
export function hostDisksOf(store: Pick<Store, "list">): VolumeDeps["findHostDisks"] {
  return async () => storageConfigOf((await store.list(KUBEVIRTS)).items[0]).hostDisks;
}

function refusalOf(path: string, directories: readonly string[] | undefined): string | undefined {
  if (directories === undefined) {
    return `hostPath ${path}: disks of the node are switched off; an administrator adds HostDisk to configuration.developerConfiguration.featureGates of the KubeVirt object`;
  }
  if (directories.includes(path)) return undefined;
  const allowed = directories.length === 0 ? "none" : directories.join(", ");
  return `hostPath ${path} is not one of configuration.hostDiskDirectories of the KubeVirt object (${allowed})`;
}

/**
 * Shows the directory below the pod's own, held by its descriptor on the way: a launcher that may write to one directory
 * could put a symbolic link in the place of another one in it. One that is shown already stays until the pod is gone.
 * @throws AppError with RUNTIME_VOLUME_FAILED, OS_PATH_REFUSED, or what the machine or the API server said
 */
export async function showHostDisk(
  { disk, findHostDisks, node }: VolumeDeps,
  pod: Pod,
  volume: { readonly name: string; readonly hostPath: NonNullable<PodVolume["hostPath"]> },
): Promise<string> {
  const { name, hostPath } = volume;
  const path = hostDiskPath(node.podsDir, pod.metadata.uid ?? "", name);
  if ((await disk.listMounts(path)).includes(path)) return path;
  const refusal = refusalOf(hostPath.path, await findHostDisks());
  if (refusal !== undefined) throw volumeFailed(name, refusal);
  await disk.mountDirectory(path, hostPath.path);
  return path;
}
