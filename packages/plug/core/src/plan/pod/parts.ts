// SPDX-License-Identifier: Apache-2.0
// Parts of a launcher pod, each from the module that knows one reason for it.
import {
  apiVersionOf,
  controllerOf,
  names,
  PERSISTENT_VOLUME_CLAIMS,
  type Container,
  type PodVolume,
  type SecurityContext,
  type VolumeMount,
  type PersistentVolumeClaim,
  type StorageConfig,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { hasState, stateClaimNameOf } from "../../spec/guest-devices.ts";

/** A device of a claim in a container. */
export type VolumeDevice = NonNullable<Container["volumeDevices"]>[number];

/** What something that the guest has needs of the pod. */
export interface PodParts {
  readonly volumes: readonly PodVolume[];
  /** In the order in which they run. */
  readonly initContainers: readonly Container[];
  /** Of the launcher's container. */
  readonly mounts: readonly VolumeMount[];
  /** Of the launcher's container. */
  readonly devices: readonly VolumeDevice[];
  /** With which images are pulled. */
  readonly secrets: readonly string[];
  /** Most that all of it takes on the node's disk, MiB. */
  readonly diskMiB: number;
}

/** What asks for nothing. */
export const NO_PARTS: PodParts = {
  volumes: [],
  initContainers: [],
  mounts: [],
  devices: [],
  secrets: [],
  diskMiB: 0,
};

/** All of them, in their order. */
export function joinParts(parts: readonly PodParts[]): PodParts {
  return {
    volumes: parts.flatMap(({ volumes }) => volumes),
    initContainers: parts.flatMap(({ initContainers }) => initContainers),
    mounts: parts.flatMap(({ mounts }) => mounts),
    devices: parts.flatMap(({ devices }) => devices),
    secrets: [...new Set(parts.flatMap(({ secrets }) => secrets))],
    diskMiB: parts.reduce((sum, { diskMiB }) => sum + diskMiB, 0),
  };
}

/** How the cluster has things, for all parts. */
export interface PartsRequest {
  /** Of the launcher. */
  readonly image: string;
  /** Whether the API server keeps volumes that are images. Source: Kubernetes KEP-4639 "image volume source". */
  readonly keepsImageVolumes: boolean;
  /** Of each container. */
  readonly securityContext: SecurityContext;
}

/** An amount as Kubernetes writes it. */
export function inMi(amount: number): string {
  return `${String(amount)}Mi`;
}

const STATE_VOLUME = "state";
/** Variables of EFI take 0.5 MiB, a TPM's state less than 0.1. */
const STATE_MIB = 16;
/** What is asked for; a file system has some of it for itself. Source: KubeVirt asks for 10Mi. */
const CLAIM_SIZE = "10Mi";

/** What a launcher pod needs for it. */
export function statePartsOf(vmi: VirtualMachineInstance): PodParts {
  if (!hasState(vmi.spec)) return NO_PARTS;
  const mounts = [{ name: STATE_VOLUME, mountPath: names.STATE_DIR }];
  const claimName = stateClaimNameOf(vmi);
  if (claimName !== undefined) {
    return {
      ...NO_PARTS,
      mounts,
      volumes: [{ name: STATE_VOLUME, persistentVolumeClaim: { claimName } }],
    };
  }
  const emptyDir = { sizeLimit: inMi(STATE_MIB) };
  return { ...NO_PARTS, mounts, volumes: [{ name: STATE_VOLUME, emptyDir }], diskMiB: STATE_MIB };
}

/** The claim that is to be there first; it goes with the VM, or with a VMI that has none. */
export function stateClaimOf(
  vmi: VirtualMachineInstance,
  { stateClass }: StorageConfig,
): PersistentVolumeClaim | undefined {
  const name = stateClaimNameOf(vmi);
  if (name === undefined) return undefined;
  const { apiVersion, kind, metadata } = vmi;
  const own = { apiVersion, kind, name: metadata.name, uid: metadata.uid ?? "", controller: true };
  return {
    apiVersion: apiVersionOf(PERSISTENT_VOLUME_CLAIMS),
    kind: PERSISTENT_VOLUME_CLAIMS.kind,
    metadata: {
      name,
      namespace: metadata.namespace ?? "",
      ownerReferences: [{ ...(controllerOf(vmi) ?? own), blockOwnerDeletion: false }],
    },
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: CLAIM_SIZE } },
      ...(stateClass === undefined ? {} : { storageClassName: stateClass }),
    },
  };
}
