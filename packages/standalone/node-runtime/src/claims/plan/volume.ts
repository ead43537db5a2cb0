// SPDX-License-Identifier: Apache-2.0
// Plans the release and deletion of one volume.
import type { PersistentVolume, PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { PROVISIONER, VOLUME_FINALIZER } from "../names.ts";

export interface VolumeFacts {
  readonly volume: PersistentVolume;
  /** Claim with the name in the volume's claimRef, if it exists. Its uid is not the uid in claimRef if a user created the claim again. */
  readonly claim: PersistentVolumeClaim | undefined;
}

export type VolumeAction =
  | {
      readonly kind: "reportVolume";
      readonly name: string;
      readonly phase: "Available" | "Released";
    }
  | { readonly kind: "removeStorage"; readonly volume: PersistentVolume }
  | { readonly kind: "deleteVolume"; readonly name: string }
  | { readonly kind: "removeVolumeFinalizer"; readonly volume: PersistentVolume };

function report(
  { metadata, status }: PersistentVolume,
  phase: "Available" | "Released",
): readonly VolumeAction[] {
  if (status?.phase === phase) return [];
  return [{ kind: "reportVolume", name: metadata.name, phase }];
}

function planFinalizerRemoval(volume: PersistentVolume): readonly VolumeAction[] {
  const { deletionTimestamp, finalizers = [] } = volume.metadata;
  const hasOwnFinalizer = deletionTimestamp !== undefined && finalizers.includes(VOLUME_FINALIZER);
  return hasOwnFinalizer ? [{ kind: "removeVolumeFinalizer", volume }] : [];
}

/** Plans the next steps for a volume that belongs to no claim. Its data is preserved, even if a user deletes the PersistentVolume. */
function planUnbound(volume: PersistentVolume): readonly VolumeAction[] {
  const isBeingDeleted = volume.metadata.deletionTimestamp !== undefined;
  return isBeingDeleted ? planFinalizerRemoval(volume) : report(volume, "Available");
}

function planReleased(volume: PersistentVolume): readonly VolumeAction[] {
  if (volume.spec.persistentVolumeReclaimPolicy !== "Delete") {
    return [...report(volume, "Released"), ...planFinalizerRemoval(volume)];
  }
  const { deletionTimestamp, name } = volume.metadata;
  return [
    ...report(volume, "Released"),
    { kind: "removeStorage", volume },
    ...(deletionTimestamp === undefined ? [{ kind: "deleteVolume", name } as const] : []),
    { kind: "removeVolumeFinalizer", volume },
  ];
}

export function planVolume({ volume, claim }: VolumeFacts): readonly VolumeAction[] {
  if (volume.spec.csi?.driver !== PROVISIONER) return [];
  const { claimRef } = volume.spec;
  if (claimRef === undefined) return planUnbound(volume);
  // A claimRef without a uid reserves the volume for a claim that may be created later.
  if (claimRef.uid === undefined) return claim === undefined ? planUnbound(volume) : [];
  return claim?.metadata.uid === claimRef.uid ? [] : planReleased(volume);
}
