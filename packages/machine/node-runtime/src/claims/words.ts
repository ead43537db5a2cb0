// SPDX-License-Identifier: Apache-2.0
// Names by which claims, volumes and this machine know each other.

/** Who makes volumes here: provisioner of the class, and driver of the volumes. */
export const PROVISIONER = "patchbay.io/local";
/** Keeps a volume's object until its file is gone, or is to stay. */
export const VOLUME_FINALIZER = "patchbay.io/local-volume";
/** The node for which a claim is made, once a pod needs it. Source: Kubernetes AnnSelectedNode. */
export const SELECTED_NODE = "volume.kubernetes.io/selected-node";
/** Who makes the volume of a claim. Source: Kubernetes AnnStorageProvisioner. */
export const STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner";
/** Who made a volume. Source: Kubernetes AnnDynamicallyProvisioned. */
export const PROVISIONED_BY = "pv.kubernetes.io/provisioned-by";
/** `yes` once claim and volume name each other. Source: Kubernetes AnnBindCompleted. */
export const BIND_COMPLETED = "pv.kubernetes.io/bind-completed";
/** `yes` where somebody else than the user chose the volume. Source: Kubernetes AnnBoundByController. */
export const BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller";
/** Label of a node that is its name. Source: Kubernetes well-known labels. */
export const HOSTNAME_LABEL = "kubernetes.io/hostname";
