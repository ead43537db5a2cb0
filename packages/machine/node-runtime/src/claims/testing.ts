// SPDX-License-Identifier: Apache-2.0
// Builders of claims, volumes and classes.
import type { PersistentVolume, PersistentVolumeClaim, StorageClass } from "@patchbay/api";
import { newVolumeOf } from "./plan/volume-of.ts";
import { PROVISIONER, SELECTED_NODE } from "./words.ts";

export const CLAIM_UID = "11111111-2222-3333-4444-555555555555";
/** Name and handle of the volume that is made for the claim. */
export const HANDLE: string = `pvc-${CLAIM_UID}`;

/** A claim of class `local` that a pod waits for. */
export function aClaim(
  spec: Partial<PersistentVolumeClaim["spec"]> = {},
  change: Partial<PersistentVolumeClaim> = {},
): PersistentVolumeClaim {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      name: "data",
      namespace: "ns",
      uid: CLAIM_UID,
      annotations: { [SELECTED_NODE]: "node-1" },
    },
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: "1Gi" } },
      storageClassName: "local",
      volumeMode: "Filesystem",
      ...spec,
    },
    status: { phase: "Pending" },
    ...change,
  };
}

/** The class that makes volumes here. */
export function aClass(change: Partial<StorageClass> = {}): StorageClass {
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name: "local" },
    provisioner: PROVISIONER,
    reclaimPolicy: "Delete",
    volumeBindingMode: "WaitForFirstConsumer",
    ...change,
  };
}

type Phase = NonNullable<NonNullable<PersistentVolume["status"]>["phase"]>;

/** The same, that nobody has. */
export function withoutClaim(volume: PersistentVolume): PersistentVolume {
  const spec = Object.entries(volume.spec).filter(([name]) => name !== "claimRef");
  // All members but one that need not be there.
  return { ...volume, spec: Object.fromEntries(spec) };
}

/** The volume of {@link aClaim}, in that phase. */
export function aVolume(
  phase: Phase = "Bound",
  spec: Partial<PersistentVolume["spec"]> = {},
): PersistentVolume {
  const made = newVolumeOf(aClaim(), { nodeName: "node-1", policy: "Delete" });
  return {
    ...made,
    metadata: { ...made.metadata, uid: "volume" },
    spec: { ...made.spec, ...spec },
    status: { phase },
  };
}
