// SPDX-License-Identifier: Apache-2.0
// Validation of pod specs, for pods and for pod templates. Source: Kubernetes core validation.
import { DURATION_MAX_SECONDS } from "@patchbay/api/limits";
import type { Cause } from "../../meta/status.ts";
import {
  duplicateValue,
  forbiddenValue,
  invalidValue,
  notFoundValue,
  requiredValue,
  unsupportedValue,
} from "../../meta/causes.ts";
import { labelFault } from "../../meta/names.ts";
import { type Fields, asFields, isFields, asList, textAt, valueAt } from "../../objects/json.ts";
import { CONTAINER_LISTS, HOOKS, PROBES, objectItems } from "./pod-defaults.ts";

/** Volume sources. If a volume sets several, only the first in this order is accepted. Source: Kubernetes validateVolumeSource. */
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
/** Actions of probes and hooks. Source: Kubernetes validateHandler. */
const HANDLERS = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

const MORE_THAN_ONE_FIELD = "may not have more than one field specified at a time";

/** If several fields of `choice` are set, rejects all of them except the first. */
function exclusiveFieldCauses(
  fields: Fields,
  choice: { readonly fields: readonly string[]; readonly noun: string },
  path: string,
): Cause[] {
  const setFields = choice.fields.filter((key) => fields[key] !== undefined);
  const message = `may not specify more than 1 ${choice.noun} type`;
  return setFields.slice(1).map((key) => forbiddenValue(`${path}.${key}`, message));
}

function downwardCauses(source: unknown, path: string): Cause[] {
  return objectItems(asFields(source), "items").flatMap((item, index) => {
    const field = `${path}.items[${String(index)}]`;
    const { fieldRef, resourceFieldRef } = item;
    if (fieldRef !== undefined && resourceFieldRef !== undefined) {
      const message = "fieldRef and resourceFieldRef can not be specified simultaneously";
      return [invalidValue(field, "resource", message)];
    }
    const hasNeither = fieldRef === undefined && resourceFieldRef === undefined;
    return hasNeither
      ? [requiredValue(field, "one of fieldRef and resourceFieldRef is required")]
      : [];
  });
}

function projectionCauses(projected: unknown, path: string): Cause[] {
  return objectItems(asFields(projected), "sources").flatMap((source, index) => {
    const field = `${path}.sources[${String(index)}]`;
    const hasSeveralSources = Object.keys(source).length > 1;
    return [
      ...(hasSeveralSources
        ? [forbiddenValue(field, "may not specify more than 1 volume type")]
        : []),
      ...downwardCauses(source["downwardAPI"], `${field}.downwardAPI`),
    ];
  });
}

function volumeSourceCauses(volume: Fields, path: string): Cause[] {
  return [
    ...exclusiveFieldCauses(volume, { fields: VOLUME_SOURCES, noun: "volume" }, path),
    ...downwardCauses(volume["downwardAPI"], `${path}.downwardAPI`),
    ...projectionCauses(volume["projected"], `${path}.projected`),
  ];
}

function valueFromCauses(variable: Fields, path: string): Cause[] {
  const source = variable["valueFrom"];
  if (!isFields(source)) {
    return [];
  }
  const field = `${path}.valueFrom`;
  const count = Object.keys(source).length;
  if (count === 0) {
    const message =
      "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
    return [invalidValue(field, "", message)];
  }
  if (textAt(variable, "value") !== "") {
    return [invalidValue(field, "", "may not be specified when `value` is not empty")];
  }
  return count > 1 ? [invalidValue(field, "", MORE_THAN_ONE_FIELD)] : [];
}

function envFromCauses(container: Fields, path: string): Cause[] {
  return objectItems(container, "envFrom").flatMap(({ configMapRef, secretRef }) => {
    if (configMapRef !== undefined && secretRef !== undefined) {
      return [invalidValue(path, "", MORE_THAN_ONE_FIELD)];
    }
    const hasNeither = configMapRef === undefined && secretRef === undefined;
    return hasNeither
      ? [invalidValue(path, "", "must specify one of: `configMapRef` or `secretRef`")]
      : [];
  });
}

function handlerCauses(container: Fields, path: string): Cause[] {
  const handlers = [
    ...PROBES.map((name) => [`${path}.${name}`, container[name]] as const),
    ...HOOKS.map(
      (name) => [`${path}.lifecycle.${name}`, valueAt(container, "lifecycle", name)] as const,
    ),
  ];
  return handlers.flatMap(([field, handler]) => {
    if (!isFields(handler)) {
      return [];
    }
    const hasNoHandler = HANDLERS.every((key) => handler[key] === undefined);
    return hasNoHandler
      ? [requiredValue(field, "must specify a handler type")]
      : exclusiveFieldCauses(handler, { fields: HANDLERS, noun: "handler" }, field);
  });
}

const PORT_MAX = 65_535;

const POD_CHOICES: Readonly<Record<string, readonly string[]>> = {
  dnsPolicy: ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
  restartPolicy: ["Always", "OnFailure", "Never"],
};

const CONTAINER_CHOICES: Readonly<Record<string, readonly string[]>> = {
  imagePullPolicy: ["Always", "IfNotPresent", "Never"],
  terminationMessagePolicy: ["FallbackToLogsOnError", "File"],
};

const BLOCK_VOLUME_FIELDS = ["name", "persistentVolumeClaim", "ephemeral"];
const BLOCK_MODE_REQUIRES_CLAIM =
  "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";

function choiceCauses(
  fields: Fields,
  choices: Readonly<Record<string, readonly string[]>>,
  path: string,
): Cause[] {
  return Object.entries(choices)
    .filter(([key, allowed]) => !allowed.includes(textAt(fields, key)))
    .map(([key, allowed]) => unsupportedValue(`${path}.${key}`, textAt(fields, key), allowed));
}

function nameCauses(item: Fields, path: string, seenNames: Set<string>): Cause[] {
  const name = textAt(item, "name");
  const fault = labelFault(name);
  if (name === "") {
    return [requiredValue(`${path}.name`)];
  }
  const causes = fault === undefined ? [] : [invalidValue(`${path}.name`, name, fault)];
  const duplicates = seenNames.has(name) ? [duplicateValue(`${path}.name`, name)] : [];
  seenNames.add(name);
  return [...causes, ...duplicates];
}

function portCauses(container: Fields, path: string): Cause[] {
  return objectItems(container, "ports").flatMap((port, index) => {
    const number = Number(port["containerPort"] ?? 0);
    const field = `${path}.ports[${String(index)}].containerPort`;
    if (number === 0) {
      return [requiredValue(field)];
    }
    return number >= 1 && number <= PORT_MAX
      ? []
      : [invalidValue(field, number, "must be between 1 and 65535, inclusive")];
  });
}

function environmentCauses(container: Fields, path: string): Cause[] {
  const variableCauses = objectItems(container, "env").flatMap((variable, index) => {
    const field = `${path}.env[${String(index)}]`;
    const missingNameCauses =
      textAt(variable, "name") === "" ? [requiredValue(`${field}.name`)] : [];
    return [...missingNameCauses, ...valueFromCauses(variable, field)];
  });
  return [...variableCauses, ...envFromCauses(container, `${path}.envFrom`)];
}

/** Volumes by name. A volume that the StatefulSet controller adds is an empty object, because only its name is known. */
type Volumes = ReadonlyMap<string, Fields>;

function volumeUseCauses(
  volumeUse: Fields,
  pathField: string,
  context: { field: string; volumes: Volumes },
): Cause[] {
  const { field, volumes } = context;
  const name = textAt(volumeUse, "name");
  const unknownCauses = volumes.has(name) ? [] : [notFoundValue(`${field}.name`, name)];
  const causes = name === "" ? [requiredValue(`${field}.name`)] : unknownCauses;
  return textAt(volumeUse, pathField) === ""
    ? [...causes, requiredValue(`${field}.${pathField}`)]
    : causes;
}

function mountCauses(container: Fields, path: string, volumes: Volumes): Cause[] {
  return objectItems(container, "volumeMounts").flatMap((mount, index) =>
    volumeUseCauses(mount, "mountPath", {
      field: `${path}.volumeMounts[${String(index)}]`,
      volumes,
    }),
  );
}

/** Checks that volumeDevices refer only to persistentVolumeClaim and ephemeral volumes. Source: Kubernetes ValidateVolumeDevices. */
function deviceCauses(container: Fields, path: string, volumes: Volumes): Cause[] {
  const mountedNames = new Set(
    objectItems(container, "volumeMounts").map((mount) => textAt(mount, "name")),
  );
  return objectItems(container, "volumeDevices").flatMap((device, index) => {
    const field = `${path}.volumeDevices[${String(index)}]`;
    const name = textAt(device, "name");
    const volume = volumes.get(name) ?? {};
    const isClaim = Object.keys(volume).every((key) => BLOCK_VOLUME_FIELDS.includes(key));
    return [
      ...volumeUseCauses(device, "devicePath", { field, volumes }),
      ...(isClaim ? [] : [invalidValue(`${field}.name`, name, BLOCK_MODE_REQUIRES_CLAIM)]),
      ...(mountedNames.has(name)
        ? [invalidValue(`${field}.name`, name, "must not already exist in volumeMounts")]
        : []),
    ];
  });
}

interface KnownNames {
  readonly containers: Set<string>;
  readonly volumes: Volumes;
}

function containerCauses(container: Fields, path: string, knownNames: KnownNames): Cause[] {
  return [
    ...nameCauses(container, path, knownNames.containers),
    ...(textAt(container, "image") === "" ? [requiredValue(`${path}.image`)] : []),
    ...choiceCauses(container, CONTAINER_CHOICES, path),
    ...portCauses(container, path),
    ...environmentCauses(container, path),
    ...handlerCauses(container, path),
    ...mountCauses(container, path, knownNames.volumes),
    ...deviceCauses(container, path, knownNames.volumes),
  ];
}

function deadlineCauses(spec: Fields, path: string): Cause[] {
  const gracePeriod = valueAt(spec, "terminationGracePeriodSeconds");
  const activeDeadline = valueAt(spec, "activeDeadlineSeconds");
  return [
    ...(Number(gracePeriod ?? 0) < 0
      ? [
          invalidValue(
            `${path}.terminationGracePeriodSeconds`,
            gracePeriod,
            "must be greater than or equal to 0",
          ),
        ]
      : []),
    ...(Number(gracePeriod ?? 0) > DURATION_MAX_SECONDS
      ? [
          invalidValue(
            `${path}.terminationGracePeriodSeconds`,
            gracePeriod,
            `must be less than or equal to ${String(DURATION_MAX_SECONDS)}`,
          ),
        ]
      : []),
    ...(activeDeadline !== undefined &&
    (Number(activeDeadline) < 1 || Number(activeDeadline) > DURATION_MAX_SECONDS)
      ? [
          invalidValue(
            `${path}.activeDeadlineSeconds`,
            activeDeadline,
            `must be between 1 and ${String(DURATION_MAX_SECONDS)}, inclusive`,
          ),
        ]
      : []),
  ];
}

/** Validates a pod spec. `claims` are names of volumes that the StatefulSet controller adds to the pods. */
export function podSpecCauses(
  spec: Fields,
  path: string,
  claims: readonly string[] = [],
): readonly Cause[] {
  const volumes = objectItems(spec, "volumes");
  const names = new Set<string>();
  const knownNames = {
    containers: new Set<string>(),
    volumes: new Map([
      ...claims.map((name) => [name, {}] as const),
      ...volumes.map((volume) => [textAt(volume, "name"), volume] as const),
    ]),
  };
  const missingContainers =
    asList(spec["containers"]).length === 0 ? [requiredValue(`${path}.containers`)] : [];
  return [
    ...volumes.flatMap((volume, index) => {
      const field = `${path}.volumes[${String(index)}]`;
      return [...nameCauses(volume, field, names), ...volumeSourceCauses(volume, field)];
    }),
    ...missingContainers,
    ...CONTAINER_LISTS.flatMap((list) =>
      objectItems(spec, list).flatMap((container, index) =>
        containerCauses(container, `${path}.${list}[${String(index)}]`, knownNames),
      ),
    ),
    ...choiceCauses(spec, POD_CHOICES, path),
    ...deadlineCauses(spec, path),
  ];
}
