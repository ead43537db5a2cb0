// SPDX-License-Identifier: Apache-2.0
// Empty directories: in memory, or on the disk in a file system of their own that ends where the volume's limit is.
import { dirname } from "node:path";
import { parseQuantity, type Pod, type PodVolume } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import { memoryLimitOf } from "../translate/resources.ts";
import { volumeFailed } from "./content/file-set.ts";
import type { VolumeDeps } from "./deps.ts";
import { imageFile } from "./layout.ts";
import { storageLimitOf } from "./storage/limits.ts";

/** Everybody in the pod may write; files get the group that the pod's volumes have. Source: Kubernetes emptydir. */
const MODE = 0o777;
const SET_GROUP = 0o2000;
const OUR_OWN = { uid: 0, gid: 0, mode: 0o700 } as const;

/** One volume at its place. */
export interface EmptyDirToMake {
  readonly pod: Pod;
  readonly name: string;
  readonly emptyDir: NonNullable<PodVolume["emptyDir"]>;
  readonly path: string;
}

function accessOf({ spec }: Pod): { uid: number; gid: number; mode: number } {
  const { fsGroup } = spec.securityContext ?? {};
  return fsGroup === undefined
    ? { uid: 0, gid: 0, mode: MODE }
    : { uid: 0, gid: fsGroup, mode: MODE | SET_GROUP };
}

/** The volume's own limit, bytes; undefined: it names none. */
function sizeLimitOf({ name, emptyDir }: EmptyDirToMake): number | undefined {
  const { sizeLimit } = emptyDir;
  if (sizeLimit === undefined) return undefined;
  const bytes = parseQuantity(sizeLimit);
  if (bytes === undefined) throw volumeFailed(name, `sizeLimit ${sizeLimit} is not a quantity`);
  return bytes > 0 ? Math.ceil(bytes) : undefined; // 0 means none. Source: Kubernetes eviction manager
}

/** Files in memory count as the containers' memory: more than all of theirs together is never there. */
function memoryBytesOf(make: EmptyDirToMake): number {
  const all = make.pod.spec.containers.map(memoryLimitOf);
  const ofPod = all.reduce((sum, bytes) => sum + bytes, 0);
  return Math.min(sizeLimitOf(make) ?? ofPod, ofPod);
}

async function makeOnDisk(deps: VolumeDeps, make: EmptyDirToMake): Promise<void> {
  const { disk, files, log, node } = deps;
  const { pod, name, path } = make;
  const image = imageFile(node.podsDir, pod.metadata.uid ?? "", name);
  // A directory without a file for it was made where there were no loop devices: its files are the pod's.
  const isThere = await files.exists(image);
  if ((await disk.kindOf(path)) !== undefined && !isThere) return;
  const access = accessOf(pod);
  await disk.makeDirectory(dirname(image), OUR_OWN);
  const sizeBytes = Math.min(sizeLimitOf(make) ?? Number.POSITIVE_INFINITY, storageLimitOf(pod));
  try {
    await disk.mountImage(path, { access, image, sizeBytes });
  } catch (error) {
    // The pod's files are in it already: none are made in their place.
    if (isThere) throw error;
    log.warn("volume has no file system of its own; its use is measured", {
      volume: name,
      reason: messageOf(error),
    });
    await files.remove(image);
    await disk.makeDirectory(path, access);
  }
}

/**
 * Makes the directory; one that is there stays as it is.
 * @throws AppError with RUNTIME_VOLUME_FAILED for what is no size or medium, or an `OS_` code while a file system that
 * was made before cannot be mounted
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
    await deps.disk.mountMemory(make.path, { access: accessOf(make.pod), sizeBytes });
  }
}
