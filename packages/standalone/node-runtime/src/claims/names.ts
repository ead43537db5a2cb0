// SPDX-License-Identifier: Apache-2.0
// Names, annotations and paths of volumes on this machine. Pure.
import { join } from "node:path";

/** A handle becomes a directory name, so nothing else is accepted. */
const HANDLE = /^pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export interface ClaimPaths {
  readonly directory: string;
  /** Sparse file of the claim's size. */
  readonly file: string;
  readonly mount: string;
  /** Contains one file per pod that uses the volume, named by uid. */
  readonly users: string;
}

/** Source: Kubernetes external-provisioner, pvc-UID. */
export function buildVolumeName(claimUid: string): string {
  return `pvc-${claimUid}`;
}

export function isHandle(handle: string): boolean {
  return HANDLE.test(handle);
}

export function claimPaths(claimsDir: string, handle: string): ClaimPaths {
  const directory = join(claimsDir, handle);
  const at = (name: string): string => join(directory, name);
  return { directory, file: at("volume.img"), mount: at("mount"), users: at("users") };
}

export const PROVISIONER = "patchbay.io/local";
/** Protects a volume's object until its file is removed or retained. */
export const VOLUME_FINALIZER = "patchbay.io/local-volume";
/** Source: Kubernetes AnnSelectedNode. */
export const SELECTED_NODE = "volume.kubernetes.io/selected-node";
/** Source: Kubernetes AnnStorageProvisioner. */
export const STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner";
/** Source: Kubernetes AnnDynamicallyProvisioned. */
export const PROVISIONED_BY = "pv.kubernetes.io/provisioned-by";
/** Source: Kubernetes AnnBindCompleted. */
export const BIND_COMPLETED = "pv.kubernetes.io/bind-completed";
/** Source: Kubernetes AnnBoundByController. */
export const BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller";
/** Source: Kubernetes well-known labels. */
export const HOSTNAME_LABEL = "kubernetes.io/hostname";
