// SPDX-License-Identifier: Apache-2.0
// Paths of a pod's volumes on the node. They must be the same as the kubelet's, because virt-handler relies on them.
import { join } from "node:path";
import { AppError } from "@patchbay/base";
import type { PodVolume } from "@patchbay/api/kubernetes";

const UID_PATTERN = /^[a-zA-Z0-9][a-zA-Z0-9-]{0,127}$/;

/** @throws AppError with OS_PATH_REFUSED when the uid cannot be a directory name */
export function buildCheckedPodDirectory(uid: string, podsDir: string): string {
  if (!UID_PATTERN.test(uid))
    throw new AppError("OS_PATH_REFUSED", { path: uid, reason: "it is not a UID" });
  return join(podsDir, uid);
}

/** Source: volume directories of the kubelet. */
const VOLUME_FOLDERS = {
  emptyDir: "kubernetes.io~empty-dir",
  configMap: "kubernetes.io~configmap",
  secret: "kubernetes.io~secret",
  downwardAPI: "kubernetes.io~downward-api",
  projected: "kubernetes.io~projected",
  image: "kubernetes.io~image",
} as const;

type FolderVolumeKind = keyof typeof VOLUME_FOLDERS;

const FOLDER_VOLUME_KINDS = Object.keys(VOLUME_FOLDERS) as readonly FolderVolumeKind[]; // The cast is safe, because VOLUME_FOLDERS has no other keys.

export function buildPodDirectory(podsDir: string, uid: string): string {
  return join(podsDir, uid);
}

export function buildKindDirectory(podsDir: string, uid: string, kind: FolderVolumeKind): string {
  return join(buildPodDirectory(podsDir, uid), "volumes", VOLUME_FOLDERS[kind]);
}

export function buildVolumePath(volume: {
  readonly podsDir: string;
  readonly uid: string;
  readonly kind: FolderVolumeKind;
  readonly name: string;
}): string {
  return join(buildKindDirectory(volume.podsDir, volume.uid, volume.kind), volume.name);
}

/** Returns the path of the image file that contains the volume's file system. The pod cannot access this file. */
export function buildImageFilePath(podsDir: string, uid: string, name: string): string {
  return join(buildPodDirectory(podsDir, uid), "disks", `${name}.ext4`);
}

export function buildHostDiskPath(podsDir: string, uid: string, name: string): string {
  return join(buildPodDirectory(podsDir, uid), "volumes", "kubernetes.io~host-path", name);
}

export function findOwnKind(volume: PodVolume): FolderVolumeKind | undefined {
  return FOLDER_VOLUME_KINDS.find((kind) => volume[kind] !== undefined);
}
