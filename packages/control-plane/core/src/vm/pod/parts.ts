// SPDX-License-Identifier: Apache-2.0
// Parts of a launcher pod that other modules contribute.
import {
  apiVersionOf,
  names,
  PERSISTENT_VOLUME_CLAIMS,
  type StorageConfig,
  type VirtualMachineInstance,
} from "@patchbay/api";
import {
  findController,
  type Container,
  type PodVolume,
  type SecurityContext,
  type VolumeMount,
  type PersistentVolumeClaim,
} from "@patchbay/api/kubernetes";
import { hasState, buildStateClaimName } from "../spec/guest-devices.ts";

export type VolumeDevice = NonNullable<Container["volumeDevices"]>[number];

export interface PodParts {
  readonly volumes: readonly PodVolume[];
  readonly initContainers: readonly Container[];
  readonly mounts: readonly VolumeMount[];
  readonly devices: readonly VolumeDevice[];
  readonly secrets: readonly string[];
  readonly diskMiB: number;
}

export const NO_PARTS: PodParts = {
  volumes: [],
  initContainers: [],
  mounts: [],
  devices: [],
  secrets: [],
  diskMiB: 0,
};

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

export interface PartsRequest {
  readonly image: string;
  /** Whether the API server supports image volumes. Source: Kubernetes KEP-4639 "image volume source". */
  readonly supportsImageVolumes: boolean;
  readonly securityContext: SecurityContext;
}

export function printMi(amount: number): string {
  return `${String(amount)}Mi`;
}

const STATE_VOLUME = "state";
/** Size limit of the state volume in MiB. The state of EFI and a TPM needs less than 1 MiB. */
const STATE_MIB = 16;
/** Size of the claim for state, including the overhead of the file system. Source: KubeVirt. */
const CLAIM_SIZE = "10Mi";

export function buildStateParts(vmi: VirtualMachineInstance): PodParts {
  if (!hasState(vmi.spec)) return NO_PARTS;
  const mounts = [{ name: STATE_VOLUME, mountPath: names.STATE_DIR }];
  const claimName = buildStateClaimName(vmi);
  if (claimName !== undefined) {
    return {
      ...NO_PARTS,
      mounts,
      volumes: [{ name: STATE_VOLUME, persistentVolumeClaim: { claimName } }],
    };
  }
  const emptyDir = { sizeLimit: printMi(STATE_MIB) };
  return { ...NO_PARTS, mounts, volumes: [{ name: STATE_VOLUME, emptyDir }], diskMiB: STATE_MIB };
}

/** Builds the claim for firmware and TPM state. The claim's owner is the VM or, if no VM exists, the VMI. */
export function buildStateClaim(
  vmi: VirtualMachineInstance,
  { stateClass }: StorageConfig,
): PersistentVolumeClaim | undefined {
  const name = buildStateClaimName(vmi);
  if (name === undefined) return undefined;
  const { apiVersion, kind, metadata } = vmi;
  const ownReference = {
    apiVersion,
    kind,
    name: metadata.name,
    uid: metadata.uid ?? "",
    controller: true,
  };
  return {
    apiVersion: apiVersionOf(PERSISTENT_VOLUME_CLAIMS),
    kind: PERSISTENT_VOLUME_CLAIMS.kind,
    metadata: {
      name,
      namespace: metadata.namespace ?? "",
      ownerReferences: [{ ...(findController(vmi) ?? ownReference), blockOwnerDeletion: false }],
    },
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: CLAIM_SIZE } },
      ...(stateClass === undefined ? {} : { storageClassName: stateClass }),
    },
  };
}
