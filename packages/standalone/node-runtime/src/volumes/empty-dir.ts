// SPDX-License-Identifier: Apache-2.0
// Creates emptyDir volumes in memory, or on the disk in a file system of limited size.
import { dirname } from "node:path";
import type { Pod, PodVolume } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import { messageOf } from "@patchbay/base";
import { findMemoryLimit } from "../translate/resources.ts";
import { buildVolumeError } from "./content/volume-files.ts";
import type { VolumeDeps } from "./deps.ts";
import { buildImageFilePath } from "./layout.ts";
import { findStorageLimit } from "./storage/limits.ts";

// World-writable mode. With SET_GROUP_BIT, new files inherit the pod's fsGroup. Source: package emptydir of Kubernetes.
const WORLD_WRITABLE_MODE = 0o777;
const SET_GROUP_BIT = 0o2000;
const ROOT_ONLY_ACCESS = { uid: 0, gid: 0, mode: 0o700 } as const;

export interface EmptyDirOptions {
  readonly pod: Pod;
  readonly name: string;
  readonly emptyDir: NonNullable<PodVolume["emptyDir"]>;
  readonly path: string;
}

function toAccess({ spec }: Pod): { uid: number; gid: number; mode: number } {
  const { fsGroup } = spec.securityContext ?? {};
  return fsGroup === undefined
    ? { uid: 0, gid: 0, mode: WORLD_WRITABLE_MODE }
    : { uid: 0, gid: fsGroup, mode: WORLD_WRITABLE_MODE | SET_GROUP_BIT };
}

function parseSizeLimit({ name, emptyDir }: EmptyDirOptions): number | undefined {
  const { sizeLimit } = emptyDir;
  if (sizeLimit === undefined) return undefined;
  const bytes = parseQuantity(sizeLimit);
  if (bytes === undefined) throw buildVolumeError(name, `sizeLimit ${sizeLimit} is not a quantity`);
  return bytes > 0 ? Math.ceil(bytes) : undefined; // 0 means no limit. Source: eviction manager of Kubernetes
}

/** Returns the size of a volume in memory: its sizeLimit, but at most the sum of the containers' memory limits. */
function computeMemoryBytes(options: EmptyDirOptions): number {
  const containerLimits = options.pod.spec.containers.map(findMemoryLimit);
  const podBytes = containerLimits.reduce((sum, bytes) => sum + bytes, 0);
  return Math.min(parseSizeLimit(options) ?? podBytes, podBytes);
}

async function makeOnDisk(deps: VolumeDeps, options: EmptyDirOptions): Promise<void> {
  const { disk, files, log, node } = deps;
  const { pod, name, path } = options;
  const image = buildImageFilePath(node.podsDir, pod.metadata.uid ?? "", name);
  // A directory without an image file was created when no loop device was available. It may contain files, so it is retained.
  const hasImage = await files.exists(image);
  if ((await disk.readKind(path)) !== undefined && !hasImage) return;
  const access = toAccess(pod);
  await disk.makeDirectory(dirname(image), ROOT_ONLY_ACCESS);
  const sizeBytes = Math.min(
    parseSizeLimit(options) ?? Number.POSITIVE_INFINITY,
    findStorageLimit(pod),
  );
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

/** Creates and mounts the volume. Idempotent. @throws RUNTIME_VOLUME_FAILED, or an `OS_` code if a file system cannot be mounted */
export async function makeEmptyDir(deps: VolumeDeps, options: EmptyDirOptions): Promise<void> {
  const { medium = "" } = options.emptyDir;
  if (medium !== "" && medium !== "Memory") {
    throw buildVolumeError(options.name, `medium ${medium} is not supported`);
  }
  if ((await deps.disk.listMounts(options.path)).includes(options.path)) return;
  if (medium === "") await makeOnDisk(deps, options);
  else {
    const sizeBytes = computeMemoryBytes(options);
    await deps.disk.mountMemory(options.path, { access: toAccess(options.pod), sizeBytes });
  }
}
