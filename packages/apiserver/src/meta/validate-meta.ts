// SPDX-License-Identifier: Apache-2.0
// Is an object's metadata allowed? Source: Kubernetes api/validation/objectmeta.go.
import type { Cause } from "../http/status.ts";
import type { Kind } from "../kinds/kind.ts";
import type { KubeObject, Meta } from "../objects/object.ts";
import { forbiddenValue, invalidValue, requiredValue, tooLongValue } from "./causes.ts";
import { labelFault, labelValueFault, qualifiedFault, subdomainFault } from "./names.ts";

/** 256 KiB over all keys and values. */
const ANNOTATIONS_MAX_BYTES = 262_144;

const KNOWN_FINALIZERS = new Set(["orphan", "foregroundDeletion", "kubernetes"]);

function nameCauses(kind: Kind, meta: Meta): Cause[] {
  if (meta.name === "") {
    return [requiredValue("metadata.name", "name or generateName is required")];
  }
  const fault = (kind.strategy.validateName ?? subdomainFault)(meta.name);
  return fault === undefined ? [] : [invalidValue("metadata.name", meta.name, fault)];
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

function labelCauses(labels: Readonly<Record<string, string>>): Cause[] {
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
  const causes: Cause[] = [];
  let bytes = 0;
  for (const [key, value] of Object.entries(annotations)) {
    const fault = qualifiedFault(key.toLowerCase());
    if (fault !== undefined) {
      causes.push(invalidValue("metadata.annotations", key, fault));
    }
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  return bytes > ANNOTATIONS_MAX_BYTES
    ? [...causes, tooLongValue("metadata.annotations", ANNOTATIONS_MAX_BYTES)]
    : causes;
}

/** Only kinds of the core group want unqualified finalizers to be known ones. */
function finalizerCauses(kind: Kind, finalizers: readonly string[]): Cause[] {
  return finalizers.flatMap((finalizer, index) => {
    const field = `metadata.finalizers[${String(index)}]`;
    const fault = qualifiedFault(finalizer);
    if (fault !== undefined) {
      return [invalidValue(field, finalizer, fault)];
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
  const missing = owners.flatMap((owner, index) =>
    (["apiVersion", "kind", "name", "uid"] as const)
      .filter(
        (field) => (owner as Partial<typeof owner>)[field] === undefined || owner[field] === "",
      )
      .map((field) =>
        invalidValue(
          `metadata.ownerReferences[${String(index)}].${field}`,
          "",
          `${field} must not be empty`,
        ),
      ),
  );
  const controllers = owners.filter((owner) => owner.controller === true);
  return controllers.length < 2
    ? missing
    : [
        ...missing,
        invalidValue(
          "metadata.ownerReferences",
          owners,
          "Only one reference can have Controller set to true",
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
