// SPDX-License-Identifier: Apache-2.0
import type { Cause } from "../../meta/status.ts";
import {
  forbiddenValue,
  invalidValue,
  requiredValue,
  unsupportedValue,
} from "../../meta/causes.ts";
import { type Fields, equalJson, asFields, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import { setDefault } from "../workload/pod-defaults.ts";
import {
  VOLUME_PROTECTION_FINALIZER,
  addFinalizer,
  accessModeCauses,
  printAccessModes,
  volumeModeCauses,
} from "./volume-fields.ts";

const RECLAIM_POLICIES: readonly string[] = ["Delete", "Recycle", "Retain"];
/** Fields of `spec` that are not volume sources. Every other field counts as a volume source. */
const NON_SOURCE_FIELDS: ReadonlySet<string> = new Set([
  "accessModes",
  "capacity",
  "claimRef",
  "mountOptions",
  "nodeAffinity",
  "persistentVolumeReclaimPolicy",
  "storageClassName",
  "volumeAttributesClassName",
  "volumeMode",
]);

function listSources(spec: Fields): readonly string[] {
  return Object.keys(spec).filter((key) => !NON_SOURCE_FIELDS.has(key));
}

function sourceCauses(spec: Fields): Cause[] {
  const [firstSource, ...extraSources] = listSources(spec);
  return [
    ...(firstSource === undefined ? [requiredValue("spec", "must specify a volume type")] : []),
    ...extraSources.map((key) =>
      forbiddenValue(`spec.${key}`, "may not specify more than 1 volume type"),
    ),
  ];
}

function validate(volume: KubeObject): Cause[] {
  const spec = asFields(volume["spec"]);
  const policy = textAt(spec, "persistentVolumeReclaimPolicy");
  return [
    ...accessModeCauses(spec["accessModes"]),
    ...(valueAt(spec, "capacity", "storage") === undefined ? [requiredValue("spec.capacity")] : []),
    ...sourceCauses(spec),
    ...(RECLAIM_POLICIES.includes(policy)
      ? []
      : [unsupportedValue("spec.persistentVolumeReclaimPolicy", policy, RECLAIM_POLICIES)]),
    ...volumeModeCauses(spec),
  ];
}

function validateUpdate(volume: KubeObject, current: KubeObject): Cause[] {
  const [spec, currentSpec] = [asFields(volume["spec"]), asFields(current["spec"])];
  const listSourceEntries = (volumeSpec: Fields) =>
    listSources(volumeSpec).map((key) => [key, volumeSpec[key]]);
  return [
    ...(equalJson(listSourceEntries(spec), listSourceEntries(currentSpec))
      ? []
      : [
          forbiddenValue(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
          ),
        ]),
    ...(spec["volumeMode"] === currentSpec["volumeMode"]
      ? []
      : [invalidValue("spec.volumeMode", spec["volumeMode"], "field is immutable")]),
  ];
}

function statusCell(volume: KubeObject): string {
  const isTerminating = volume.metadata.deletionTimestamp !== undefined;
  return isTerminating ? "Terminating" : textAt(volume, "status", "phase");
}

function claimCell(volume: KubeObject): string {
  const claim = asFields(valueAt(volume, "spec", "claimRef"));
  return Object.keys(claim).length === 0
    ? ""
    : `${textAt(claim, "namespace")}/${textAt(claim, "name")}`;
}

export const PERSISTENT_VOLUME: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "persistentvolumes",
  kind: "PersistentVolume",
  namespaced: false,
  shortNames: ["pv"],
  strategy: {
    hasStatus: true,
    applyDefaults: (volume) => {
      const spec = asFields(volume["spec"]);
      setDefault(spec, "volumeMode", "Filesystem");
      setDefault(spec, "persistentVolumeReclaimPolicy", "Retain");
      volume["spec"] = spec;
    },
    prepareCreate: (volume) => {
      volume["status"] = { phase: "Pending" };
      addFinalizer(volume, VOLUME_PROTECTION_FINALIZER);
    },
    validate,
    validateUpdate,
    columns: [
      {
        name: "Capacity",
        type: "string",
        cell: (volume) => textAt(volume, "spec", "capacity", "storage"),
      },
      {
        name: "Access Modes",
        type: "string",
        cell: (volume) => printAccessModes(valueAt(volume, "spec", "accessModes")),
      },
      {
        name: "Reclaim Policy",
        type: "string",
        cell: (volume) => textAt(volume, "spec", "persistentVolumeReclaimPolicy"),
      },
      { name: "Status", type: "string", cell: statusCell },
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
