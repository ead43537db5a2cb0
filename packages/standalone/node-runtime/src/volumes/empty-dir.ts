// SPDX-License-Identifier: Apache-2.0
// emptyDir volumes: in memory, or on the disk in a file system of limited size.
import { dirname } from "node:path";
import { parseQuantity, type Pod, type PodVolume } from "@patchbay/api";
import { messageOf } from "@patchbay/base";
import { memoryLimitOf } from "../translate/resources.ts";
import { volumeFailed } from "./content/volume-files.ts";
import type { VolumeDeps } from "./deps.ts";
import { imageFile } from "./layout.ts";
import { storageLimitOf } from "./storage/limits.ts";

/** World-writable, and files inherit the pod's fsGroup. Source: Kubernetes emptydir. */
const MODE = 0o777;
const SET_GROUP = 0o2000;
const ROOT_ONLY = { uid: 0, gid: 0, mode: 0o700 } as const;

export interface EmptyDirToMake {
  readonly pod: Pod;
  readonly name: string;
  readonly emptyDir: NonNullable<PodVolume["emptyDir"]>;
  readonly path: string;
}

function toAccess({ spec }: Pod): { uid: number; gid: number; mode: number } {
  const { fsGroup } = spec.securityContext ?? {};
  return fsGroup === undefined
    ? { uid: 0, gid: 0, mode: MODE }
    : { uid: 0, gid: fsGroup, mode: MODE | SET_GROUP };
}

function sizeLimitOf({ name, emptyDir }: EmptyDirToMake): number | undefined {
  const { sizeLimit } = emptyDir;
  if (sizeLimit === undefined) return undefined;
  const bytes = parseQuantity(sizeLimit);
  if (bytes === undefined) throw volumeFailed(name, `sizeLimit ${sizeLimit} is not a quantity`);
  return bytes > 0 ? Math.ceil(bytes) : undefined; // 0 means no limit. Source: Kubernetes eviction manager
}

/** Files in memory count towards the containers' memory limits. */
function memoryBytesOf(make: EmptyDirToMake): number {
  const all = make.pod.spec.containers.map(memoryLimitOf);
  const ofPod = all.reduce((sum, bytes) => sum + bytes, 0);
  return Math.min(sizeLimitOf(make) ?? ofPod, ofPod);
}

async function makeOnDisk(deps: VolumeDeps, make: EmptyDirToMake): Promise<void> {
  const { disk, files, log, node } = deps;
  const { pod, name, path } = make;
  const image = imageFile(node.podsDir, pod.metadata.uid ?? "", name);
  // Without an image file the directory was created while no loop device was available; the pod's files are in it.
  const hasImage = await files.exists(image);
  if ((await disk.readKind(path)) !== undefined && !hasImage) return;
  const access = toAccess(pod);
  await disk.makeDirectory(dirname(image), ROOT_ONLY);
  const sizeBytes = Math.min(sizeLimitOf(make) ?? Number.POSITIVE_INFINITY, storageLimitOf(pod));
  try {
    await disk.mountImage(path, { access, image, sizeBytes });
  } catch (error) {
    if (hasImage) throw error;
    log.warn("volume has no file system of its own; its use is measured", {
      volume: name,
      reason: messageOf(error),
    });
    await files.remove(image);
    await disk.makeDirectory(path, access);
  }
}

/**
 * Idempotent.
 * @throws AppError with RUNTIME_VOLUME_FAILED, or an `OS_` code while a file system cannot be mounted
 */
export async function makeEmptyDir(deps: VolumeDeps, make: EmptyDirToMake): Promise<void> {
  const { medium = "" } = make.emptyDir;
  if (medium !== "" && medium !== "Memory") {
    throw volumeFailed(make.name, `medium ${medium} is not supported`);
  }
  if ((await deps.disk.listMounts(make.path)).includes(make.path)) return;
  if (medium === "") await makeOnDisk(deps, make);
  else {
    const sizeBytes = memoryBytesOf(make);
    await deps.disk.mountMemory(make.path, { access: toAccess(make.pod), sizeBytes });
  }
}
