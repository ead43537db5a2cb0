// SPDX-License-Identifier: Apache-2.0
// Claims of storage, as objects: nothing here provides storage. Source: Kubernetes core/v1 PersistentVolumeClaim.
import type { Cause } from "../http/status.ts";
import { forbiddenValue, requiredValue } from "../meta/causes.ts";
import {
  type Fields,
  equalJson,
  fieldsOf,
  listOf,
  textAt,
  valueAt,
  without,
} from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { AGE } from "../table/age.ts";
import { type Kind, defineKind } from "./kind.ts";
import { setDefault } from "./pod-defaults.ts";

const MODES: Readonly<Record<string, string>> = {
  ReadWriteOnce: "RWO",
  ReadOnlyMany: "ROX",
  ReadWriteMany: "RWX",
  ReadWriteOncePod: "RWOP",
};

/** Fills in the defaults of a claim, also of one in a template. Changes it. */
export function defaultClaim(claim: Fields): void {
  const spec = fieldsOf(claim["spec"]);
  setDefault(spec, "volumeMode", "Filesystem");
  claim["spec"] = spec;
}

function validate(claim: KubeObject): Cause[] {
  const spec = fieldsOf(claim["spec"]);
  const storage = valueAt(spec, "resources", "requests", "storage");
  return [
    ...(listOf(spec["accessModes"]).length === 0
      ? [requiredValue("spec.accessModes", "at least 1 access mode is required")]
      : []),
    ...(storage === undefined ? [requiredValue("spec.resources[storage]")] : []),
  ];
}

function validateUpdate(claim: KubeObject, current: KubeObject): Cause[] {
  const fixed = (object: KubeObject) =>
    without(fieldsOf(object["spec"]), "resources", "volumeName", "volumeAttributesClassName");
  return equalJson(fixed(claim), fixed(current))
    ? []
    : [
        forbiddenValue(
          "spec",
          "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ),
      ];
}

function modesCell(claim: KubeObject): string {
  return listOf(valueAt(claim, "status", "accessModes"))
    .map((mode) => MODES[String(mode)] ?? "")
    .join(",");
}

/** Persistent volume claims. */
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
    },
    validate,
    validateUpdate,
    columns: [
      { name: "Status", type: "string", cell: (claim) => textAt(claim, "status", "phase") },
      { name: "Volume", type: "string", cell: (claim) => textAt(claim, "spec", "volumeName") },
      {
        name: "Capacity",
        type: "string",
        cell: (claim) => textAt(claim, "status", "capacity", "storage"),
      },
      { name: "Access Modes", type: "string", cell: modesCell },
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
