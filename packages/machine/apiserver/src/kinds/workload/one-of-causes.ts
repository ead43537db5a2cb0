// SPDX-License-Identifier: Apache-2.0
// Of which fields of a pod's specification may only one be given, since two would leave open which is meant?
// Source: Kubernetes core validation.
import type { Cause } from "../../meta/status.ts";
import { forbiddenValue, invalidValue, requiredValue } from "../../meta/causes.ts";
import { type Fields, fieldsOf, isFields, textAt, valueAt } from "../../objects/json.ts";
import { HOOKS, itemsOf, PROBES } from "./pod-defaults.ts";

/** In the order in which they are judged: what comes later is what is refused. Source: Kubernetes validateVolumeSource. */
const VOLUME_SOURCES = [
  "emptyDir",
  "hostPath",
  "gitRepo",
  "gcePersistentDisk",
  "awsElasticBlockStore",
  "secret",
  "nfs",
  "iscsi",
  "glusterfs",
  "flocker",
  "persistentVolumeClaim",
  "rbd",
  "cinder",
  "cephfs",
  "quobyte",
  "downwardAPI",
  "fc",
  "flexVolume",
  "configMap",
  "azureFile",
  "vsphereVolume",
  "photonPersistentDisk",
  "portworxVolume",
  "azureDisk",
  "storageos",
  "projected",
  "scaleIO",
  "csi",
  "ephemeral",
  "image",
];
/** Source: Kubernetes validateHandler. */
const HANDLERS = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

const AT_A_TIME = "may not have more than one field specified at a time";

/** A cause for each of the fields that is given beside an earlier one. */
function furtherCauses(
  fields: Fields,
  choice: { readonly fields: readonly string[]; readonly noun: string },
  path: string,
): Cause[] {
  const given = choice.fields.filter((key) => fields[key] !== undefined);
  const why = `may not specify more than 1 ${choice.noun} type`;
  return given.slice(1).map((key) => forbiddenValue(`${path}.${key}`, why));
}

function downwardCauses(source: unknown, path: string): Cause[] {
  return itemsOf(fieldsOf(source), "items").flatMap((item, index) => {
    const field = `${path}.items[${String(index)}]`;
    const { fieldRef, resourceFieldRef } = item;
    if (fieldRef !== undefined && resourceFieldRef !== undefined) {
      const why = "fieldRef and resourceFieldRef can not be specified simultaneously";
      return [invalidValue(field, "resource", why)];
    }
    const isNone = fieldRef === undefined && resourceFieldRef === undefined;
    return isNone ? [requiredValue(field, "one of fieldRef and resourceFieldRef is required")] : [];
  });
}

function projectionCauses(projected: unknown, path: string): Cause[] {
  return itemsOf(fieldsOf(projected), "sources").flatMap((source, index) => {
    const field = `${path}.sources[${String(index)}]`;
    const isMany = Object.keys(source).length > 1;
    return [
      ...(isMany ? [forbiddenValue(field, "may not specify more than 1 volume type")] : []),
      ...downwardCauses(source["downwardAPI"], `${field}.downwardAPI`),
    ];
  });
}

/** Causes for which a volume at `path` could be more than one thing. */
export function volumeSourceCauses(volume: Fields, path: string): Cause[] {
  return [
    ...furtherCauses(volume, { fields: VOLUME_SOURCES, noun: "volume" }, path),
    ...downwardCauses(volume["downwardAPI"], `${path}.downwardAPI`),
    ...projectionCauses(volume["projected"], `${path}.projected`),
  ];
}

/** Causes for which a variable at `path` could have more than one value, or has none. */
export function variableSourceCauses(variable: Fields, path: string): Cause[] {
  const from = variable["valueFrom"];
  if (!isFields(from)) {
    return [];
  }
  const field = `${path}.valueFrom`;
  const count = Object.keys(from).length;
  if (count === 0) {
    const why =
      "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
    return [invalidValue(field, "", why)];
  }
  if (textAt(variable, "value") !== "") {
    return [invalidValue(field, "", "may not be specified when `value` is not empty")];
  }
  return count > 1 ? [invalidValue(field, "", AT_A_TIME)] : [];
}

/** Causes for which what `envFrom` at `path` takes variables from is not one object. */
export function variablesSourceCauses(container: Fields, path: string): Cause[] {
  return itemsOf(container, "envFrom").flatMap(({ configMapRef, secretRef }) => {
    if (configMapRef !== undefined && secretRef !== undefined) {
      return [invalidValue(path, "", AT_A_TIME)];
    }
    const isNone = configMapRef === undefined && secretRef === undefined;
    return isNone
      ? [invalidValue(path, "", "must specify one of: `configMapRef` or `secretRef`")]
      : [];
  });
}

/** Causes for which a probe or hook of the container could do more than one thing, or does none. */
export function handlerCauses(container: Fields, path: string): Cause[] {
  const all = [
    ...PROBES.map((name) => [`${path}.${name}`, container[name]] as const),
    ...HOOKS.map(
      (name) => [`${path}.lifecycle.${name}`, valueAt(container, "lifecycle", name)] as const,
    ),
  ];
  return all.flatMap(([field, handler]) => {
    if (!isFields(handler)) {
      return [];
    }
    const isNone = HANDLERS.every((key) => handler[key] === undefined);
    return isNone
      ? [requiredValue(field, "must specify a handler type")]
      : furtherCauses(handler, { fields: HANDLERS, noun: "handler" }, field);
  });
}
