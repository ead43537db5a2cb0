// SPDX-License-Identifier: Apache-2.0
// What keeps storage while it is used: finalizers that every claim and volume is made with. Source: Kubernetes
// StorageObjectInUseProtection admission.
import type { KubeObject } from "../../objects/object.ts";

/** Until no pod on a node names the claim. Source: Kubernetes PVCProtectionFinalizer. */
export const CLAIM_PROTECTION = "kubernetes.io/pvc-protection";
/** Until no claim is bound to the volume. Source: Kubernetes PVProtectionFinalizer. */
export const VOLUME_PROTECTION = "kubernetes.io/pv-protection";

/** Lets a new object be kept by the finalizer. Changes it. */
export function addFinalizer({ metadata }: KubeObject, finalizer: string): void {
  const known = metadata.finalizers ?? [];
  if (!known.includes(finalizer)) {
    metadata.finalizers = [...known, finalizer];
  }
}
