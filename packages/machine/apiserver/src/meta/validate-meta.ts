// SPDX-License-Identifier: Apache-2.0
// Is an object's metadata allowed? Source: Kubernetes api/validation/objectmeta.go.
import type { Cause } from "./status.ts";
import type { Kind } from "../kinds/kind.ts";
import type { KubeObject, Meta } from "../objects/object.ts";
import { forbiddenValue, invalidValue, requiredValue, tooLongValue } from "./causes.ts";
import { labelFault, labelValueFault, qualifiedFault, subdomainFault } from "./names.ts";

/** 256 KiB over all keys and values: of annotations as in Kubernetes, and of labels, which there are bounded by the object's size only. */
const MAP_MAX_BYTES = 262_144;

const EVENT_OWNS = "/v1, Kind=Event is disallowed from being an owner";
const KNOWN_FINALIZERS = new Set(["orphan", "foregroundDeletion", "kubernetes"]);

function nameCauses(kind: Kind, meta: Meta): Cause[] {
  const faultOf = kind.strategy.validateName ?? subdomainFault;
  const { name, generateName = "" } = meta;
  // What is generated follows the prefix, which may therefore end in what a name may not end in.
  const prefixFault = generateName === "" ? undefined : faultOf(generateName.replace(/[-.]$/, "a"));
  const fault = faultOf(name);
  return [
    ...(prefixFault === undefined
      ? []
      : [invalidValue("metadata.generateName", generateName, prefixFault)]),
    ...(name === ""
      ? [requiredValue("metadata.name", "name or generateName is required")]
      : causeOf("metadata.name", name, fault)),
  ];
}

function causeOf(field: string, value: string, fault: string | undefined): Cause[] {
  return fault === undefined ? [] : [invalidValue(field, value, fault)];
}

function namespaceCauses(kind: Kind, meta: Meta): Cause[] {
  const namespace = meta.namespace ?? "";
  if (!kind.namespaced) {
    return namespace === ""
      ? []
      : [forbiddenValue("metadata.namespace", "not allowed on this type")];
  }
  const fault = labelFault(namespace);
  return fault === undefined ? [] : [invalidValue("metadata.namespace", namespace, fault)];
}

function isTooLong(map: Readonly<Record<string, string>>): boolean {
  let bytes = 0;
  for (const [key, value] of Object.entries(map)) {
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  return bytes > MAP_MAX_BYTES;
}

function labelCauses(labels: Readonly<Record<string, string>>): Cause[] {
  if (isTooLong(labels)) {
    return [tooLongValue("metadata.labels", MAP_MAX_BYTES)];
  }
  return Object.entries(labels).flatMap(([key, value]) => {
    const keyFault = qualifiedFault(key);
    const valueFault = labelValueFault(value);
    return [
      ...(keyFault === undefined ? [] : [invalidValue("metadata.labels", key, keyFault)]),
      ...(valueFault === undefined ? [] : [invalidValue("metadata.labels", value, valueFault)]),
    ];
  });
}

function annotationCauses(annotations: Readonly<Record<string, string>>): Cause[] {
  if (isTooLong(annotations)) {
    return [tooLongValue("metadata.annotations", MAP_MAX_BYTES)];
  }
  return Object.keys(annotations).flatMap((key) => {
    const fault = qualifiedFault(key.toLowerCase());
    return fault === undefined ? [] : [invalidValue("metadata.annotations", key, fault)];
  });
}

/** Dependents go first, or they stay. */
function bothCauses(finalizers: readonly string[]): Cause[] {
  const both = finalizers.includes("orphan") && finalizers.includes("foregroundDeletion");
  const why = "finalizer orphan and foregroundDeletion cannot be both set";
  return both ? [invalidValue("metadata.finalizers", finalizers, why)] : [];
}

/** Only kinds of the core group want unqualified finalizers to be known ones. */
function finalizerCauses(kind: Kind, finalizers: readonly string[]): Cause[] {
  return finalizers.flatMap((finalizer, index) => {
    const field = `metadata.finalizers[${String(index)}]`;
    const fault = qualifiedFault(finalizer);
    if (fault !== undefined) {
      return [invalidValue("metadata.finalizers", finalizer, fault)];
    }
    return kind.group !== "" || finalizer.includes("/") || KNOWN_FINALIZERS.has(finalizer)
      ? []
      : [
          invalidValue(
            field,
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
          ),
        ];
  });
}

function ownerCauses(meta: Meta): Cause[] {
  const owners = meta.ownerReferences ?? [];
  const missing = owners.flatMap((owner) => [
    ...(["apiVersion", "kind", "name", "uid"] as const)
      .filter(
        (field) => (owner as Partial<typeof owner>)[field] === undefined || owner[field] === "",
      )
      .map((field) => {
        const what = field === "apiVersion" ? "version" : field;
        return invalidValue(`metadata.ownerReferences.${field}`, "", `${what} must not be empty`);
      }),
    ...(owner.apiVersion === "v1" && owner.kind === "Event"
      ? [invalidValue("metadata.ownerReferences", owner, EVENT_OWNS)]
      : []),
  ]);
  const controllers = owners.filter((owner) => owner.controller === true);
  const names = controllers.slice(0, 2).map((owner) => `${owner.kind}/${owner.name}`);
  return controllers.length < 2
    ? missing
    : [
        ...missing,
        invalidValue(
          "metadata.ownerReferences",
          owners,
          `Only one reference can have Controller set to true. Found "true" in references for ${names.join(" and ")}`,
        ),
      ];
}

/** Causes for which the metadata of a new or changed object is refused. */
export function validateMeta(kind: Kind, object: KubeObject): Cause[] {
  const meta = object.metadata;
  return [
    ...nameCauses(kind, meta),
    ...namespaceCauses(kind, meta),
    ...labelCauses(meta.labels ?? {}),
    ...annotationCauses(meta.annotations ?? {}),
    ...finalizerCauses(kind, meta.finalizers ?? []),
    ...bothCauses(meta.finalizers ?? []),
    ...ownerCauses(meta),
  ];
}

/** Causes for which a change of metadata is refused: new finalizers while the object is being deleted. */
export function validateMetaUpdate(object: KubeObject, current: KubeObject): Cause[] {
  if (current.metadata.deletionTimestamp === undefined) {
    return [];
  }
  const known = new Set(current.metadata.finalizers);
  const added = (object.metadata.finalizers ?? []).filter((finalizer) => !known.has(finalizer));
  return added.length === 0
    ? []
    : [
        forbiddenValue(
          "metadata.finalizers",
          `no new finalizers can be added if the object is being deleted, found new finalizers []string{${added.map((name) => `"${name}"`).join(", ")}}`,
        ),
      ];
}
