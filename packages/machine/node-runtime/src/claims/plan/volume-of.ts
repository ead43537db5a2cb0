// SPDX-License-Identifier: Apache-2.0
// Which volume does a claim get, and does one that is there fit it? Pure.
import {
  apiVersionOf,
  parseQuantity,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type ClaimReference,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type VolumeMode,
} from "@patchbay/api";
import type { ClaimSize } from "@patchbay/core/ports";
import { handleOf } from "../layout.ts";
import { HOSTNAME_LABEL, PROVISIONED_BY, PROVISIONER, VOLUME_FINALIZER } from "../words.ts";

/** How a volume names its claim. */
export function referenceTo({ metadata }: PersistentVolumeClaim): ClaimReference {
  const { name, namespace, uid } = metadata;
  return {
    apiVersion: apiVersionOf(PERSISTENT_VOLUME_CLAIMS),
    kind: PERSISTENT_VOLUME_CLAIMS.kind,
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(uid === undefined ? {} : { uid }),
  };
}

function onlyOn(nodeName: string): object {
  const expression = { key: HOSTNAME_LABEL, operator: "In", values: [nodeName] };
  return { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } };
}

/** The volume that is made for the claim; its phase says later that there is storage. */
export function newVolumeOf(
  claim: PersistentVolumeClaim,
  at: { readonly nodeName: string; readonly policy: "Delete" | "Retain" },
): PersistentVolume {
  const { accessModes = [], resources, storageClassName = "", volumeMode } = claim.spec;
  const handle = handleOf(claim.metadata.uid ?? "");
  return {
    apiVersion: apiVersionOf(PERSISTENT_VOLUMES),
    kind: PERSISTENT_VOLUMES.kind,
    metadata: {
      name: handle,
      annotations: { [PROVISIONED_BY]: PROVISIONER },
      finalizers: [VOLUME_FINALIZER],
    },
    spec: {
      accessModes,
      capacity: { storage: resources?.requests?.["storage"] ?? "" },
      storageClassName,
      volumeMode: volumeMode ?? "Filesystem",
      claimRef: referenceTo(claim),
      persistentVolumeReclaimPolicy: at.policy,
      csi: { driver: PROVISIONER, volumeHandle: handle },
      nodeAffinity: onlyOn(at.nodeName),
    },
  };
}

function bytesOf(quantity: string | undefined): number {
  return Math.ceil(parseQuantity(quantity ?? "") ?? 0);
}

/** What is made for the volume. */
export function sizeOf({ spec }: PersistentVolume): ClaimSize {
  const sizeBytes = bytesOf(spec.capacity?.["storage"]);
  return { kind: spec.volumeMode === "Block" ? "device" : "files", sizeBytes };
}

interface Traits {
  readonly accessModes: readonly string[];
  readonly className: string;
  readonly mode: VolumeMode;
}

function traitsOf(spec: {
  readonly accessModes?: readonly string[];
  readonly storageClassName?: string;
  readonly volumeMode?: VolumeMode;
}): Traits {
  const { accessModes = [], storageClassName = "", volumeMode = "Filesystem" } = spec;
  return { accessModes, className: storageClassName, mode: volumeMode };
}

/** Why the claim cannot have the volume, which nobody has; undefined: it can. Source: Kubernetes checkVolumeSatisfyClaim. */
export function mismatchOf(
  claim: PersistentVolumeClaim,
  volume: PersistentVolume,
): string | undefined {
  const asked = claim.spec.resources?.requests?.["storage"];
  const [wanted, given] = [traitsOf(claim.spec), traitsOf(volume.spec)];
  if (bytesOf(volume.spec.capacity?.["storage"]) < bytesOf(asked)) {
    return "requested PV is too small";
  }
  if (given.className !== wanted.className) return "storageClassName does not match";
  if (given.mode !== wanted.mode) return "incompatible volumeMode";
  const isOffered = wanted.accessModes.every((mode) => given.accessModes.includes(mode));
  return isOffered ? undefined : "incompatible accessMode";
}
