// SPDX-License-Identifier: Apache-2.0
// Names, annotations and paths of volumes on this machine. Pure.
import { join } from "node:path";

/** Pattern of volume handles. It is strict because a handle becomes a directory name. */
const HANDLE_PATTERN = /^pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export interface ClaimPaths {
  readonly directory: string;
  /** Sparse file of the claim's size. */
  readonly file: string;
  readonly mount: string;
  /** Contains one file per pod that uses the volume, named by uid. */
  readonly users: string;
}

/** Source: names of the volumes of Kubernetes' external-provisioner. */
export function buildVolumeName(claimUid: string): string {
  return `pvc-${claimUid}`;
}

export function isHandle(handle: string): boolean {
  return HANDLE_PATTERN.test(handle);
}

export function claimPaths(claimsDir: string, handle: string): ClaimPaths {
  const directory = join(claimsDir, handle);
  const pathOf = (name: string): string => join(directory, name);
  return { directory, file: pathOf("volume.img"), mount: pathOf("mount"), users: pathOf("users") };
}

export const PROVISIONER = "patchbay.io/local";
/** Protects a volume's object until its file is removed or retained. */
export const VOLUME_FINALIZER = "patchbay.io/local-volume";
// Sources: the constants of Kubernetes named in the comments behind the values.
export const SELECTED_NODE = "volume.kubernetes.io/selected-node"; // AnnSelectedNode
export const STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"; // AnnStorageProvisioner
export const PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"; // AnnDynamicallyProvisioned
export const BIND_COMPLETED = "pv.kubernetes.io/bind-completed"; // AnnBindCompleted
export const BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"; // AnnBoundByController
/** Source: well-known labels of Kubernetes. */
export const HOSTNAME_LABEL = "kubernetes.io/hostname";
