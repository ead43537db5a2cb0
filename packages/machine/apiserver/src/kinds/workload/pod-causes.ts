// SPDX-License-Identifier: Apache-2.0
// For which causes is a pod's specification refused, alone and in templates? Source: Kubernetes core validation.
import type { Cause } from "../../meta/status.ts";
import {
  duplicateValue,
  invalidValue,
  notFoundValue,
  requiredValue,
  unsupportedValue,
} from "../../meta/causes.ts";
import { labelFault } from "../../meta/names.ts";
import { type Fields, listOf, textAt, valueAt } from "../../objects/json.ts";
import {
  handlerCauses,
  variableSourceCauses,
  variablesSourceCauses,
  volumeSourceCauses,
} from "./one-of-causes.ts";
import { CONTAINER_LISTS, itemsOf } from "./pod-defaults.ts";

const PORT_MAX = 65_535;

/** Values that a field may have; checked where it has one. */
const CHOICES: Readonly<Record<string, readonly string[]>> = {
  dnsPolicy: ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
  restartPolicy: ["Always", "OnFailure", "Never"],
};

const CONTAINER_CHOICES: Readonly<Record<string, readonly string[]>> = {
  imagePullPolicy: ["Always", "IfNotPresent", "Never"],
  terminationMessagePolicy: ["FallbackToLogsOnError", "File"],
};

/** What a volume may have that is given as a device. */
const CLAIM_FIELDS = ["name", "persistentVolumeClaim", "ephemeral"];
const NOT_BLOCK =
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

/** Causes for names of items: they must be there, be labels, and be unique. */
function nameCauses(item: Fields, path: string, seen: Set<string>): Cause[] {
  const name = textAt(item, "name");
  const fault = labelFault(name);
  if (name === "") {
    return [requiredValue(`${path}.name`)];
  }
  const causes = fault === undefined ? [] : [invalidValue(`${path}.name`, name, fault)];
  const again = seen.has(name) ? [duplicateValue(`${path}.name`, name)] : [];
  seen.add(name);
  return [...causes, ...again];
}

function portCauses(container: Fields, path: string): Cause[] {
  return itemsOf(container, "ports").flatMap((port, index) => {
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
  const single = itemsOf(container, "env").flatMap((variable, index) => {
    const field = `${path}.env[${String(index)}]`;
    const unnamed = textAt(variable, "name") === "" ? [requiredValue(`${field}.name`)] : [];
    return [...unnamed, ...variableSourceCauses(variable, field)];
  });
  return [...single, ...variablesSourceCauses(container, `${path}.envFrom`)];
}

/** Volumes by name; of those that a controller adds only the name is known. */
type Volumes = ReadonlyMap<string, Fields>;

/** Causes for which the name of a volume, or where it is in the container, is refused. */
function useCauses(use: Fields, place: string, at: { field: string; volumes: Volumes }): Cause[] {
  const { field, volumes } = at;
  const name = textAt(use, "name");
  const unknown = volumes.has(name) ? [] : [notFoundValue(`${field}.name`, name)];
  const named = name === "" ? [requiredValue(`${field}.name`)] : unknown;
  return textAt(use, place) === "" ? [...named, requiredValue(`${field}.${place}`)] : named;
}

function mountCauses(container: Fields, path: string, volumes: Volumes): Cause[] {
  return itemsOf(container, "volumeMounts").flatMap((mount, index) =>
    useCauses(mount, "mountPath", { field: `${path}.volumeMounts[${String(index)}]`, volumes }),
  );
}

/** Only what a claim gives can be a device. Source: Kubernetes ValidateVolumeDevices. */
function deviceCauses(container: Fields, path: string, volumes: Volumes): Cause[] {
  const mounted = new Set(itemsOf(container, "volumeMounts").map((mount) => textAt(mount, "name")));
  return itemsOf(container, "volumeDevices").flatMap((device, index) => {
    const field = `${path}.volumeDevices[${String(index)}]`;
    const name = textAt(device, "name");
    const volume = volumes.get(name) ?? {};
    const isClaim = Object.keys(volume).every((key) => CLAIM_FIELDS.includes(key));
    return [
      ...useCauses(device, "devicePath", { field, volumes }),
      ...(isClaim ? [] : [invalidValue(`${field}.name`, name, NOT_BLOCK)]),
      ...(mounted.has(name)
        ? [invalidValue(`${field}.name`, name, "must not already exist in volumeMounts")]
        : []),
    ];
  });
}

interface Known {
  readonly containers: Set<string>;
  readonly volumes: Volumes;
}

function containerCauses(container: Fields, path: string, known: Known): Cause[] {
  return [
    ...nameCauses(container, path, known.containers),
    ...(textAt(container, "image") === "" ? [requiredValue(`${path}.image`)] : []),
    ...choiceCauses(container, CONTAINER_CHOICES, path),
    ...portCauses(container, path),
    ...environmentCauses(container, path),
    ...handlerCauses(container, path),
    ...mountCauses(container, path, known.volumes),
    ...deviceCauses(container, path, known.volumes),
  ];
}

function secondsCauses(spec: Fields, path: string): Cause[] {
  const grace = valueAt(spec, "terminationGracePeriodSeconds");
  const active = valueAt(spec, "activeDeadlineSeconds");
  return [
    ...(Number(grace ?? 0) < 0
      ? [
          invalidValue(
            `${path}.terminationGracePeriodSeconds`,
            grace,
            "must be greater than or equal to 0",
          ),
        ]
      : []),
    ...(active !== undefined && Number(active) < 1
      ? [
          invalidValue(
            `${path}.activeDeadlineSeconds`,
            active,
            "must be between 1 and 2147483647, inclusive",
          ),
        ]
      : []),
  ];
}

/** Causes for which a specification at `path` is refused; `claims`: volumes that a controller adds. */
export function podSpecCauses(
  spec: Fields,
  path: string,
  claims: readonly string[] = [],
): readonly Cause[] {
  const volumes = itemsOf(spec, "volumes");
  const names = new Set<string>();
  const known = {
    containers: new Set<string>(),
    volumes: new Map([
      ...claims.map((name) => [name, {}] as const),
      ...volumes.map((volume) => [textAt(volume, "name"), volume] as const),
    ]),
  };
  const none = listOf(spec["containers"]).length === 0 ? [requiredValue(`${path}.containers`)] : [];
  return [
    ...volumes.flatMap((volume, index) => {
      const field = `${path}.volumes[${String(index)}]`;
      return [...nameCauses(volume, field, names), ...volumeSourceCauses(volume, field)];
    }),
    ...none,
    ...CONTAINER_LISTS.flatMap((list) =>
      itemsOf(spec, list).flatMap((container, index) =>
        containerCauses(container, `${path}.${list}[${String(index)}]`, known),
      ),
    ),
    ...choiceCauses(spec, CHOICES, path),
    ...secondsCauses(spec, path),
  ];
}
