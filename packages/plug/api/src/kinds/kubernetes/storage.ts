// SPDX-License-Identifier: Apache-2.0
// Storage that outlives pods. Source: Kubernetes core/v1 PersistentVolumeClaim, PersistentVolume; storage.k8s.io/v1 StorageClass.
import type { KubeObject } from "./meta.ts";

/** Whether containers see a volume as files or as a device; absent: Filesystem. */
export type VolumeMode = "Filesystem" | "Block";

/** What a pod's user asks for. */
export interface PersistentVolumeClaim extends KubeObject {
  readonly spec: {
    readonly accessModes?: readonly string[];
    readonly resources?: { readonly requests?: Readonly<Record<string, string>> };
    /** Absent: the default class is filled in at creation; empty: none. */
    readonly storageClassName?: string;
    readonly volumeMode?: VolumeMode;
    /** The volume, once the claim is bound. */
    readonly volumeName?: string;
    readonly selector?: object;
    /** What the volume is to be filled from. */
    readonly dataSource?: object;
    readonly dataSourceRef?: object;
  };
  readonly status?: {
    readonly phase?: "Pending" | "Bound" | "Lost";
    readonly accessModes?: readonly string[];
    readonly capacity?: Readonly<Record<string, string>>;
  };
}

/** Which claim has a volume. */
export interface ClaimReference {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly uid?: string;
}

/** Storage that is there. */
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
    /** Where it can be used; no member here looks into it. */
    readonly nodeAffinity?: object;
  };
  readonly status?: {
    readonly phase?: "Pending" | "Available" | "Bound" | "Released" | "Failed";
    readonly reason?: string;
    readonly message?: string;
  };
}

/** Who makes volumes for claims, and when. */
export interface StorageClass extends KubeObject {
  readonly provisioner: string;
  readonly reclaimPolicy?: "Delete" | "Retain";
  readonly volumeBindingMode?: "Immediate" | "WaitForFirstConsumer";
  readonly allowVolumeExpansion?: boolean;
  readonly parameters?: Readonly<Record<string, string>>;
}
