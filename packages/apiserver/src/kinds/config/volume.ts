// SPDX-License-Identifier: Apache-2.0
// Volumes and claims of them, as objects: nothing here provides storage. Source: Kubernetes core/v1.
import type { Cause } from "../../meta/status.ts";
import { forbiddenValue, requiredValue } from "../../meta/causes.ts";
import {
  type Fields,
  equalJson,
  fieldsOf,
  listOf,
  textAt,
  valueAt,
  without,
} from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import { setDefault } from "../workload/pod-defaults.ts";

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

function modesText(modes: unknown): string {
  return listOf(modes)
    .map((mode) => MODES[String(mode)] ?? "")
    .join(",");
}

const PERSISTENT_VOLUME_CLAIM: Kind = defineKind({
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
      {
        name: "Access Modes",
        type: "string",
        cell: (claim) => modesText(valueAt(claim, "status", "accessModes")),
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

function claimCell(volume: KubeObject): string {
  const claim = fieldsOf(valueAt(volume, "spec", "claimRef"));
  return Object.keys(claim).length === 0
    ? ""
    : `${textAt(claim, "namespace")}/${textAt(claim, "name")}`;
}

const PERSISTENT_VOLUME: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "persistentvolumes",
  kind: "PersistentVolume",
  namespaced: false,
  shortNames: ["pv"],
  strategy: {
    hasStatus: true,
    applyDefaults: (volume) => {
      defaultClaim(volume);
      setDefault(fieldsOf(volume["spec"]), "persistentVolumeReclaimPolicy", "Retain");
    },
    prepareCreate: (volume) => {
      volume["status"] = { phase: "Pending" };
    },
    validate: (volume) => {
      const spec = fieldsOf(volume["spec"]);
      const modes = listOf(spec["accessModes"]).length;
      const storage = valueAt(spec, "capacity", "storage");
      return [
        ...(modes === 0 ? [requiredValue("spec.accessModes")] : []),
        ...(storage === undefined ? [requiredValue("spec.capacity")] : []),
      ];
    },
    columns: [
      {
        name: "Capacity",
        type: "string",
        cell: (volume) => textAt(volume, "spec", "capacity", "storage"),
      },
      {
        name: "Access Modes",
        type: "string",
        cell: (volume) => modesText(valueAt(volume, "spec", "accessModes")),
      },
      {
        name: "Reclaim Policy",
        type: "string",
        cell: (volume) => textAt(volume, "spec", "persistentVolumeReclaimPolicy"),
      },
      { name: "Status", type: "string", cell: (volume) => textAt(volume, "status", "phase") },
      { name: "Claim", type: "string", cell: claimCell },
      {
        name: "StorageClass",
        type: "string",
        cell: (volume) => textAt(volume, "spec", "storageClassName"),
      },
      { name: "Reason", type: "string", cell: (volume) => textAt(volume, "status", "reason") },
      AGE,
      {
        name: "VolumeMode",
        type: "string",
        priority: 1,
        cell: (volume) => textAt(volume, "spec", "volumeMode"),
      },
    ],
  },
});

/** Persistent volumes and claims. */
export const VOLUME_KINDS: readonly Kind[] = [PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM];
