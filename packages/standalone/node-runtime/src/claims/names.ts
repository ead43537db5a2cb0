// SPDX-License-Identifier: Apache-2.0
// Names, annotations and paths of volumes on this machine.
import { join } from "node:path";

/** Pattern of volume handles. It is strict because a handle becomes a directory name. */
const HANDLE_PATTERN = /^pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export interface ClaimPaths {
  readonly directory: string;
  /** Path of the sparse file that contains the volume's data. */
  readonly file: string;
  readonly mount: string;
  /** Path of a directory with one empty file for each pod that uses the volume. The file's name is the pod's uid. */
  readonly users: string;
}

/** Source: volume names of Kubernetes' external-provisioner. */
export function buildVolumeName(claimUid: string): string {
  return `pvc-${claimUid}`;
}

export function isHandle(handle: string): boolean {
  return HANDLE_PATTERN.test(handle);
}

export function buildClaimPaths(claimsDir: string, handle: string): ClaimPaths {
  const directory = join(claimsDir, handle);
  const pathOf = (name: string): string => join(directory, name);
  return { directory, file: pathOf("volume.img"), mount: pathOf("mount"), users: pathOf("users") };
}

export const PROVISIONER = "patchbay.io/local";
/** Finalizer that keeps a released PersistentVolume with reclaim policy Delete until its data is removed. */
export const VOLUME_FINALIZER = "patchbay.io/local-volume";
// Source: pv_helpers.go in component-helpers of Kubernetes.
export const SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node";
export const STORAGE_PROVISIONER_ANNOTATION = "volume.kubernetes.io/storage-provisioner";
export const PROVISIONED_BY_ANNOTATION = "pv.kubernetes.io/provisioned-by";
export const BIND_COMPLETED_ANNOTATION = "pv.kubernetes.io/bind-completed";
export const BOUND_BY_CONTROLLER_ANNOTATION = "pv.kubernetes.io/bound-by-controller";
/** Source: well-known labels of Kubernetes. */
export const HOSTNAME_LABEL = "kubernetes.io/hostname";
