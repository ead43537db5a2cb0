// SPDX-License-Identifier: Apache-2.0
// Where firmware and TPM of a guest write: a directory of the pod, or a claim that is the VM's.
import {
  apiVersionOf,
  controllerOf,
  names,
  PERSISTENT_VOLUME_CLAIMS,
  type PersistentVolumeClaim,
  type StorageConfig,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { hasState, stateClaimNameOf } from "../../spec/guest-state.ts";
import { inMi, NO_PARTS, type PodParts } from "./parts.ts";

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
