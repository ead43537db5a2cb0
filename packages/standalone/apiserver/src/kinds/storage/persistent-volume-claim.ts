// SPDX-License-Identifier: Apache-2.0
import type { Cause } from "../../meta/status.ts";
import { forbiddenValue, invalidValue, requiredValue } from "../../meta/causes.ts";
import { type Fields, equalJson, asFields, textAt, valueAt, without } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import { setDefault } from "../workload/pod-defaults.ts";
import {
  CLAIM_PROTECTION_FINALIZER,
  addFinalizer,
  accessModeCauses,
  printAccessModes,
  volumeModeCauses,
} from "./volume-fields.ts";

/** Fields that an update may set only if they are empty, for example when the binder chooses a volume. */
const SET_ONCE_FIELDS = ["volumeName", "storageClassName"] as const;

export function defaultClaim(claim: Fields): void {
  const spec = asFields(claim["spec"]);
  setDefault(spec, "volumeMode", "Filesystem");
  claim["spec"] = spec;
}

function sizeCauses(spec: Fields): Cause[] {
  const storage = textAt(spec, "resources", "requests", "storage");
  if (storage === "") {
    return [requiredValue("spec.resources[storage]")];
  }
  return !/^(-|0$)/.test(storage)
    ? []
    : [invalidValue("spec.resources[storage]", storage, "must be greater than zero")];
}

function validate(claim: KubeObject): Cause[] {
  const spec = asFields(claim["spec"]);
  return [
    ...accessModeCauses(spec["accessModes"], "at least 1 access mode is required"),
    ...sizeCauses(spec),
    ...volumeModeCauses(spec),
  ];
}

function immutablePart(spec: Fields, currentSpec: Fields): Fields {
  const settableFields = SET_ONCE_FIELDS.filter(
    (key) => currentSpec[key] === undefined || currentSpec[key] === "",
  );
  return without(spec, "resources", "volumeAttributesClassName", ...settableFields);
}

/** Rejects resizing, because no controller here expands volumes. Source: Kubernetes PersistentVolumeClaimResize admission. */
function resizeCauses(spec: Fields, currentSpec: Fields): Cause[] {
  const [size, currentSize] = [spec, currentSpec].map((claimSpec) =>
    valueAt(claimSpec, "resources", "requests", "storage"),
  );
  return equalJson(size, currentSize)
    ? []
    : [
        forbiddenValue(
          "spec.resources.requests.storage",
          "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        ),
      ];
}

function validateUpdate(claim: KubeObject, current: KubeObject): Cause[] {
  const [spec, currentSpec] = [asFields(claim["spec"]), asFields(current["spec"])];
  const isSame = equalJson(
    immutablePart(spec, currentSpec),
    immutablePart(currentSpec, currentSpec),
  );
  return [
    ...(isSame
      ? []
      : [
          forbiddenValue(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
          ),
        ]),
    ...resizeCauses(spec, currentSpec),
  ];
}

function statusCell(claim: KubeObject): string {
  const isTerminating = claim.metadata.deletionTimestamp !== undefined;
  return isTerminating ? "Terminating" : textAt(claim, "status", "phase");
}

export const PERSISTENT_VOLUME_CLAIM: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "persistentvolumeclaims",
  kind: "PersistentVolumeClaim",
  shortNames: ["pvc"],
  strategy: {
    hasStatus: true,
    applyDefaults: defaultClaim,
    prepareCreate: (claim) => {
      claim["status"] = { phase: "Pending" };
      addFinalizer(claim, CLAIM_PROTECTION_FINALIZER);
    },
    validate,
    validateUpdate,
    columns: [
      { name: "Status", type: "string", cell: statusCell },
      { name: "Volume", type: "string", cell: (claim) => textAt(claim, "spec", "volumeName") },
      {
        name: "Capacity",
        type: "string",
        cell: (claim) => textAt(claim, "status", "capacity", "storage"),
      },
      {
        name: "Access Modes",
        type: "string",
        cell: (claim) => printAccessModes(valueAt(claim, "status", "accessModes")),
      },
      {
        name: "StorageClass",
        type: "string",
        cell: (claim) => textAt(claim, "spec", "storageClassName"),
      },
      AGE,
      {
        name: "VolumeMode",
        type: "string",
        priority: 1,
        cell: (claim) => textAt(claim, "spec", "volumeMode"),
      },
    ],
  },
});
