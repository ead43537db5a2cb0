// SPDX-License-Identifier: Apache-2.0
// What is to be done for one volume whose claim may be gone? Pure.
import type { PersistentVolume, PersistentVolumeClaim } from "@patchbay/api";
import { PROVISIONER, VOLUME_FINALIZER } from "../words.ts";

/** What is known of one volume. */
export interface VolumeFacts {
  readonly volume: PersistentVolume;
  /** The claim of the name that the volume names, whichever that is. */
  readonly claim: PersistentVolumeClaim | undefined;
}

/** One step; repeated, it does no harm. */
export type VolumeAction =
  | {
      readonly kind: "reportVolume";
      readonly name: string;
      readonly phase: "Available" | "Released";
    }
  /** Removes what is in it, for ever. */
  | { readonly kind: "removeStorage"; readonly volume: PersistentVolume }
  | { readonly kind: "deleteVolume"; readonly name: string }
  | { readonly kind: "letVolumeGo"; readonly volume: PersistentVolume };

function report(
  { metadata, status }: PersistentVolume,
  phase: "Available" | "Released",
): readonly VolumeAction[] {
  if (status?.phase === phase) return [];
  return [{ kind: "reportVolume", name: metadata.name, phase }];
}

function letGo(volume: PersistentVolume): readonly VolumeAction[] {
  const { deletionTimestamp, finalizers = [] } = volume.metadata;
  const isHeld = deletionTimestamp !== undefined && finalizers.includes(VOLUME_FINALIZER);
  return isHeld ? [{ kind: "letVolumeGo", volume }] : [];
}

/** Nobody has it. What is in it is somebody's work: it goes with its claim, or when a person removes it. */
function planFree(volume: PersistentVolume): readonly VolumeAction[] {
  const isLeaving = volume.metadata.deletionTimestamp !== undefined;
  return isLeaving ? letGo(volume) : report(volume, "Available");
}

/** Its claim is gone. */
function planReleased(volume: PersistentVolume): readonly VolumeAction[] {
  if (volume.spec.persistentVolumeReclaimPolicy !== "Delete") {
    return [...report(volume, "Released"), ...letGo(volume)];
  }
  const { deletionTimestamp, name } = volume.metadata;
  return [
    ...report(volume, "Released"),
    { kind: "removeStorage", volume },
    ...(deletionTimestamp === undefined ? [{ kind: "deleteVolume", name } as const] : []),
    { kind: "letVolumeGo", volume },
  ];
}

/** The steps in their order; none at rest. */
export function planVolume({ volume, claim }: VolumeFacts): readonly VolumeAction[] {
  if (volume.spec.csi?.driver !== PROVISIONER) return [];
  const { claimRef } = volume.spec;
  if (claimRef === undefined) return planFree(volume);
  // Promised to a claim of that name, which may come.
  if (claimRef.uid === undefined) return claim === undefined ? planFree(volume) : [];
  return claim?.metadata.uid === claimRef.uid ? [] : planReleased(volume);
}
