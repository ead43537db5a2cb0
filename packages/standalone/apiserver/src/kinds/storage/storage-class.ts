// SPDX-License-Identifier: Apache-2.0
import type { Cause } from "../../meta/status.ts";
import {
  forbiddenValue,
  invalidValue,
  requiredValue,
  unsupportedValue,
} from "../../meta/causes.ts";
import { equalJson, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import { setDefault } from "../workload/pod-defaults.ts";

const DEFAULT_ANNOTATION = "storageclass.kubernetes.io/is-default-class";
const RECLAIM_POLICIES: readonly string[] = ["Delete", "Retain"];
const BINDING_MODES: readonly string[] = ["Immediate", "WaitForFirstConsumer"];

export function isDefaultClass({ metadata }: KubeObject): boolean {
  return metadata.annotations?.[DEFAULT_ANNOTATION] === "true";
}

function validate(storageClass: KubeObject): Cause[] {
  const policy = textAt(storageClass, "reclaimPolicy");
  const mode = textAt(storageClass, "volumeBindingMode");
  return [
    ...(textAt(storageClass, "provisioner") === "" ? [requiredValue("provisioner")] : []),
    ...(RECLAIM_POLICIES.includes(policy)
      ? []
      : [unsupportedValue("reclaimPolicy", policy, RECLAIM_POLICIES)]),
    ...(BINDING_MODES.includes(mode)
      ? []
      : [unsupportedValue("volumeBindingMode", mode, BINDING_MODES)]),
  ];
}

function validateUpdate(storageClass: KubeObject, current: KubeObject): Cause[] {
  const isChanged = (key: string) => !equalJson(storageClass[key], current[key]);
  const mode = storageClass["volumeBindingMode"];
  return [
    ...["parameters", "provisioner", "reclaimPolicy"]
      .filter(isChanged)
      .map((key) => forbiddenValue(key, `updates to ${key} are forbidden.`)),
    ...(isChanged("volumeBindingMode")
      ? [invalidValue("volumeBindingMode", mode, "field is immutable")]
      : []),
  ];
}

export const STORAGE_CLASS: Kind = defineKind({
  group: "storage.k8s.io",
  version: "v1",
  resource: "storageclasses",
  kind: "StorageClass",
  singular: "storageclass",
  namespaced: false,
  shortNames: ["sc"],
  strategy: {
    applyDefaults: (storageClass) => {
      setDefault(storageClass, "reclaimPolicy", "Delete");
      setDefault(storageClass, "volumeBindingMode", "Immediate");
    },
    validate,
    validateUpdate,
    columns: [
      {
        name: "Name",
        type: "string",
        format: "name",
        cell: (storageClass) =>
          `${storageClass.metadata.name}${isDefaultClass(storageClass) ? " (default)" : ""}`,
      },
      {
        name: "Provisioner",
        type: "string",
        cell: (storageClass) => textAt(storageClass, "provisioner"),
      },
      {
        name: "ReclaimPolicy",
        type: "string",
        cell: (storageClass) => textAt(storageClass, "reclaimPolicy"),
      },
      {
        name: "VolumeBindingMode",
        type: "string",
        cell: (storageClass) => textAt(storageClass, "volumeBindingMode"),
      },
      {
        name: "AllowVolumeExpansion",
        type: "boolean",
        cell: (storageClass) => storageClass["allowVolumeExpansion"] === true,
      },
      AGE,
    ],
  },
});
