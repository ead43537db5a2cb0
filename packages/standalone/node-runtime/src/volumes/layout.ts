// SPDX-License-Identifier: Apache-2.0
// Paths of a pod's volumes on the node. virt-handler relies on this layout of the kubelet. Pure.
import { join } from "node:path";
import { AppError } from "@patchbay/base";
import type { PodVolume } from "@patchbay/api/kubernetes";

const UID = /^[a-zA-Z0-9][a-zA-Z0-9-]{0,127}$/;

/** @throws AppError with OS_PATH_REFUSED when the uid cannot be a directory name */
export function checkedPodDirectory(uid: string, podsDir: string): string {
  if (!UID.test(uid))
    throw new AppError("OS_PATH_REFUSED", { path: uid, reason: "it is not a UID" });
  return join(podsDir, uid);
}

/** Source: volume directories of the kubelet. */
const FOLDERS = {
  emptyDir: "kubernetes.io~empty-dir",
  configMap: "kubernetes.io~configmap",
  secret: "kubernetes.io~secret",
  downwardAPI: "kubernetes.io~downward-api",
  projected: "kubernetes.io~projected",
  image: "kubernetes.io~image",
} as const;

type OwnKind = keyof typeof FOLDERS;

const OWN_KINDS = Object.keys(FOLDERS) as readonly OwnKind[]; // the keys are the kinds

export function podDirectory(podsDir: string, uid: string): string {
  return join(podsDir, uid);
}

export function kindDirectory(podsDir: string, uid: string, kind: OwnKind): string {
  return join(podDirectory(podsDir, uid), "volumes", FOLDERS[kind]);
}

export function volumePath(at: {
  readonly podsDir: string;
  readonly uid: string;
  readonly kind: OwnKind;
  readonly name: string;
}): string {
  return join(kindDirectory(at.podsDir, at.uid, at.kind), at.name);
}

/** Returns the path of the file with the volume's file system. The pod cannot see this file. */
export function imageFile(podsDir: string, uid: string, name: string): string {
  return join(podDirectory(podsDir, uid), "disks", `${name}.ext4`);
}

export function hostDiskPath(podsDir: string, uid: string, name: string): string {
  return join(podDirectory(podsDir, uid), "volumes", "kubernetes.io~host-path", name);
}

export function findOwnKind(volume: PodVolume): OwnKind | undefined {
  return OWN_KINDS.find((kind) => volume[kind] !== undefined);
}
