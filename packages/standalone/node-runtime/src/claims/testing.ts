// SPDX-License-Identifier: Apache-2.0
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "@patchbay/api/kubernetes";
import { buildVolume } from "./plan/claim.ts";
import { PROVISIONER, SELECTED_NODE_ANNOTATION } from "./names.ts";

export const CLAIM_UID = "11111111-2222-3333-4444-555555555555";
/** Name and handle of the volume provisioned for {@link aClaim}. */
export const HANDLE: string = `pvc-${CLAIM_UID}`;

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
      annotations: { [SELECTED_NODE_ANNOTATION]: "node-1" },
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

export function withoutClaim(volume: PersistentVolume): PersistentVolume {
  const spec = Object.entries(volume.spec).filter(([name]) => name !== "claimRef");
  return { ...volume, spec: Object.fromEntries(spec) };
}

export function aVolume(
  phase: Phase = "Bound",
  spec: Partial<PersistentVolume["spec"]> = {},
): PersistentVolume {
  const volume = buildVolume(aClaim(), { nodeName: "node-1", policy: "Delete" });
  return {
    ...volume,
    metadata: { ...volume.metadata, uid: "volume" },
    spec: { ...volume.spec, ...spec },
    status: { phase },
  };
}
