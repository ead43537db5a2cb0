// SPDX-License-Identifier: Apache-2.0
// Validation and finalizers that volumes and claims share. Source: Kubernetes core/v1, StorageObjectInUseProtection.
import type { Cause } from "../../meta/status.ts";
import { forbiddenValue, requiredValue, unsupportedValue } from "../../meta/causes.ts";
import { type Fields, asList, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";

const ACCESS_MODES: Readonly<Record<string, string>> = {
  ReadWriteOnce: "RWO",
  ReadOnlyMany: "ROX",
  ReadWriteMany: "RWX",
  ReadWriteOncePod: "RWOP",
};
const SINGLE_POD_MODE = "ReadWriteOncePod";

/** Returns, for example, `RWO,RWX`. */
export function printAccessModes(modes: unknown): string {
  return asList(modes)
    .map((mode) => ACCESS_MODES[String(mode)] ?? "")
    .join(",");
}

/** Checks the modes. `missingMessage` is the message for an empty list. */
export function accessModeCauses(modes: unknown, missingMessage = ""): Cause[] {
  const accessModes = asList(modes);
  const knownModes = Object.keys(ACCESS_MODES);
  return [
    ...(accessModes.length === 0 ? [requiredValue("spec.accessModes", missingMessage)] : []),
    ...accessModes
      .filter((mode) => !knownModes.includes(String(mode)))
      .map((mode) => unsupportedValue("spec.accessModes", mode, knownModes)),
    ...(accessModes.includes(SINGLE_POD_MODE) && accessModes.length > 1
      ? [
          forbiddenValue(
            "spec.accessModes",
            `may not use ${SINGLE_POD_MODE} with other access modes`,
          ),
        ]
      : []),
  ];
}

const VOLUME_MODES: readonly string[] = ["Block", "Filesystem"];

export function volumeModeCauses(spec: Fields): Cause[] {
  const mode = textAt(spec, "volumeMode");
  return VOLUME_MODES.includes(mode)
    ? []
    : [unsupportedValue("spec.volumeMode", mode, VOLUME_MODES)];
}

/** Finalizer that delays the deletion of a claim until no scheduled pod uses the claim. Source: Kubernetes PVCProtectionFinalizer. */
export const CLAIM_PROTECTION_FINALIZER = "kubernetes.io/pvc-protection";
/** Finalizer that delays the deletion of a volume until no claim is bound to the volume. Source: Kubernetes PVProtectionFinalizer. */
export const VOLUME_PROTECTION_FINALIZER = "kubernetes.io/pv-protection";

export function addFinalizer({ metadata }: KubeObject, finalizer: string): void {
  const finalizers = metadata.finalizers ?? [];
  if (!finalizers.includes(finalizer)) {
    metadata.finalizers = [...finalizers, finalizer];
  }
}
