// SPDX-License-Identifier: Apache-2.0
// Persistent storage. Source: Kubernetes core/v1 PersistentVolumeClaim, PersistentVolume; storage.k8s.io/v1
// StorageClass.
import type { KubeObject } from "./meta.ts";

export type VolumeMode = "Filesystem" | "Block";

export interface PersistentVolumeClaim extends KubeObject {
  readonly spec: {
    readonly accessModes?: readonly string[];
    readonly resources?: { readonly requests?: Readonly<Record<string, string>> };
    /** If unset, admission sets the default class. If empty, the claim has no class. */
    readonly storageClassName?: string;
    readonly volumeMode?: VolumeMode;
    /** Unset until the claim is bound. */
    readonly volumeName?: string;
    readonly selector?: object;
    readonly dataSource?: object;
    readonly dataSourceRef?: object;
  };
  readonly status?: {
    readonly phase?: "Pending" | "Bound" | "Lost";
    readonly accessModes?: readonly string[];
    readonly capacity?: Readonly<Record<string, string>>;
  };
}

export interface ClaimReference {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly uid?: string;
}

export interface PersistentVolume extends KubeObject {
  readonly spec: {
    readonly accessModes?: readonly string[];
    readonly capacity?: Readonly<Record<string, string>>;
    readonly storageClassName?: string;
    readonly volumeMode?: VolumeMode;
    readonly claimRef?: ClaimReference;
    readonly persistentVolumeReclaimPolicy?: "Delete" | "Retain" | "Recycle";
    readonly csi?: {
      readonly driver: string;
      readonly volumeHandle: string;
      readonly volumeAttributes?: Readonly<Record<string, string>>;
    };
    readonly nodeAffinity?: object;
  };
  readonly status?: {
    readonly phase?: "Pending" | "Available" | "Bound" | "Released" | "Failed";
    readonly reason?: string;
    readonly message?: string;
  };
}

export interface StorageClass extends KubeObject {
  readonly provisioner: string;
  readonly reclaimPolicy?: "Delete" | "Retain";
  readonly volumeBindingMode?: "Immediate" | "WaitForFirstConsumer";
  readonly allowVolumeExpansion?: boolean;
  readonly parameters?: Readonly<Record<string, string>>;
}
