// SPDX-License-Identifier: Apache-2.0
// Decoding and validation of metadata. Source: Kubernetes api/validation/objectmeta.go.
import { collectProblems, METADATA_MAX_BYTES } from "@patchbay/api/limits";
import { type Fields, isFields, setField } from "../objects/json.ts";
import type { KubeObject, Meta, OwnerReference } from "../objects/object.ts";
import type { Kind } from "../kinds/kind.ts";
import { type Cause, badRequest } from "./status.ts";
import { forbiddenValue, invalidValue, requiredValue, tooLongValue } from "./causes.ts";
import { labelFault, labelValueFault, qualifiedNameFault, subdomainFault } from "./names.ts";

type FieldType = "string" | "number" | "boolean" | "map" | "strings" | "owners" | "any";

const META_FIELDS: Readonly<Record<string, FieldType>> = {
  name: "string",
  generateName: "string",
  namespace: "string",
  selfLink: "string",
  uid: "string",
  resourceVersion: "string",
  generation: "number",
  creationTimestamp: "string",
  deletionTimestamp: "string",
  deletionGracePeriodSeconds: "number",
  labels: "map",
  annotations: "map",
  ownerReferences: "owners",
  finalizers: "strings",
  managedFields: "any",
};

const OWNER_FIELDS: Readonly<Record<keyof OwnerReference, FieldType>> = {
  apiVersion: "string",
  kind: "string",
  name: "string",
  uid: "string",
  controller: "boolean",
  blockOwnerDeletion: "boolean",
};

/** Returns the name of the value's type, as in error messages of Go's JSON decoder. */
export function jsonTypeOf(value: unknown): string {
  if (Array.isArray(value)) {
    return "array";
  }
  if (typeof value === "boolean") {
    return "bool";
  }
  return typeof value === "bigint" ? "number" : typeof value;
}

export function cannotUnmarshal(value: unknown, field: string, type: string): Error {
  return badRequest(
    `json: cannot unmarshal ${jsonTypeOf(value)} into Go struct field ${field} of type ${type}`,
  );
}

function decodeStrings(value: unknown, field: string): string[] {
  if (!Array.isArray(value)) {
    throw cannotUnmarshal(value, field, "[]string");
  }
  return value.map((item: unknown) => {
    if (typeof item !== "string") {
      throw cannotUnmarshal(item, field, "string");
    }
    return item;
  });
}

function decodeStringMap(value: unknown, field: string): Record<string, string> {
  if (!isFields(value)) {
    throw cannotUnmarshal(value, field, "map[string]string");
  }
  const map: Record<string, string> = {};
  for (const [key, item] of Object.entries(value)) {
    if (typeof item !== "string" && item !== null) {
      throw cannotUnmarshal(item, field, "string");
    }
    setField(map, key, item ?? "");
  }
  return map;
}

function decodeOwners(value: unknown, field: string): Fields[] {
  if (!Array.isArray(value)) {
    throw cannotUnmarshal(value, field, "[]v1.OwnerReference");
  }
  return value.map((item: unknown) => {
    if (!isFields(item)) {
      throw cannotUnmarshal(item, field, "v1.OwnerReference");
    }
    return decodeKnownFields(item, OWNER_FIELDS, field);
  });
}

const DECODERS: Readonly<Record<FieldType, (value: unknown, field: string) => unknown>> = {
  any: (value) => value,
  map: decodeStringMap,
  strings: decodeStrings,
  owners: decodeOwners,
  string: (value, field) => decodeScalar(value, "string", field),
  number: (value, field) => decodeScalar(value, "number", field),
  boolean: (value, field) => decodeScalar(value, "boolean", field),
};

function decodeScalar(
  value: unknown,
  type: "string" | "number" | "boolean",
  field: string,
): unknown {
  if (typeof value !== type) {
    throw cannotUnmarshal(value, field, type === "number" ? "int64" : type);
  }
  return value;
}

function decodeKnownFields(
  value: Fields,
  fieldTypes: Readonly<Record<string, FieldType>>,
  path: string,
): Fields {
  const result: Fields = {};
  for (const [key, type] of Object.entries(fieldTypes)) {
    const field = value[key];
    if (field !== undefined && field !== null) {
      result[key] = DECODERS[type](field, `${path}.${key}`);
    }
  }
  return result;
}

function dropEmptyAndUnrecorded(meta: Fields): void {
  for (const key of ["labels", "annotations", "finalizers", "ownerReferences"]) {
    const value = meta[key];
    if (
      isFields(value) ? Object.keys(value).length === 0 : Array.isArray(value) && value.length === 0
    ) {
      Reflect.deleteProperty(meta, key);
    }
  }
  for (const key of ["selfLink", "managedFields"]) {
    Reflect.deleteProperty(meta, key);
  }
}

/** Decodes metadata. Drops unknown fields and managedFields. Throws a StatusError 400 for a value of the wrong type. */
export function decodeMeta(value: unknown, kind: string): Meta {
  if (value !== undefined && value !== null && !isFields(value)) {
    throw cannotUnmarshal(value, `${kind}.metadata`, "v1.ObjectMeta");
  }
  const meta = decodeKnownFields(isFields(value) ? value : {}, META_FIELDS, "ObjectMeta");
  dropEmptyAndUnrecorded(meta);
  return { name: "", ...meta };
}

const EVENT_OWNER_FORBIDDEN = "/v1, Kind=Event is disallowed from being an owner";
const KNOWN_FINALIZERS = new Set(["orphan", "foregroundDeletion", "kubernetes"]);

function nameCauses(kind: Kind, meta: Meta): Cause[] {
  const findFault = kind.strategy.validateName ?? subdomainFault;
  const { name, generateName = "" } = meta;
  // generateName may end in "-" or ".", because generated characters follow.
  const prefixFault =
    generateName === "" ? undefined : findFault(generateName.replace(/[-.]$/, "a"));
  const fault = findFault(name);
  return [
    ...(prefixFault === undefined
      ? []
      : [invalidValue("metadata.generateName", generateName, prefixFault)]),
    ...(name === ""
      ? [requiredValue("metadata.name", "name or generateName is required")]
      : faultCauses("metadata.name", name, fault)),
  ];
}

function faultCauses(field: string, value: string, fault: string | undefined): Cause[] {
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
  return bytes > METADATA_MAX_BYTES;
}

function labelCauses(labels: Readonly<Record<string, string>>): readonly Cause[] {
  if (isTooLong(labels)) {
    return [tooLongValue("metadata.labels", METADATA_MAX_BYTES)];
  }
  return collectProblems(Object.entries(labels), ([key, value]) => {
    const keyFault = qualifiedNameFault(key);
    const valueFault = labelValueFault(value);
    return [
      ...(keyFault === undefined ? [] : [invalidValue("metadata.labels", key, keyFault)]),
      ...(valueFault === undefined ? [] : [invalidValue("metadata.labels", value, valueFault)]),
    ];
  });
}

function annotationCauses(annotations: Readonly<Record<string, string>>): readonly Cause[] {
  if (isTooLong(annotations)) {
    return [tooLongValue("metadata.annotations", METADATA_MAX_BYTES)];
  }
  return collectProblems(Object.keys(annotations), (key) => {
    const fault = qualifiedNameFault(key.toLowerCase());
    return fault === undefined ? [] : [invalidValue("metadata.annotations", key, fault)];
  });
}

/** Rejects the finalizer orphan together with foregroundDeletion: dependents cannot be both retained and deleted. */
function propagationCauses(finalizers: readonly string[]): Cause[] {
  const hasBoth = finalizers.includes("orphan") && finalizers.includes("foregroundDeletion");
  const message = "finalizer orphan and foregroundDeletion cannot be both set";
  return hasBoth ? [invalidValue("metadata.finalizers", finalizers, message)] : [];
}

/** Checks the finalizers. For kinds of the core group, a finalizer without a prefix must be known to Kubernetes. */
function finalizerCauses(kind: Kind, finalizers: readonly string[]): Cause[] {
  return finalizers.flatMap((finalizer, index) => {
    const field = `metadata.finalizers[${String(index)}]`;
    const fault = qualifiedNameFault(finalizer);
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
  const referenceCauses = owners.flatMap((owner) => [
    ...(["apiVersion", "kind", "name", "uid"] as const)
      .filter(
        (field) => (owner as Partial<typeof owner>)[field] === undefined || owner[field] === "",
      )
      .map((field) => {
        const noun = field === "apiVersion" ? "version" : field;
        return invalidValue(`metadata.ownerReferences.${field}`, "", `${noun} must not be empty`);
      }),
    ...(owner.apiVersion === "v1" && owner.kind === "Event"
      ? [invalidValue("metadata.ownerReferences", owner, EVENT_OWNER_FORBIDDEN)]
      : []),
  ]);
  const controllers = owners.filter((owner) => owner.controller === true);
  const names = controllers.slice(0, 2).map((owner) => `${owner.kind}/${owner.name}`);
  return controllers.length < 2
    ? referenceCauses
    : [
        ...referenceCauses,
        invalidValue(
          "metadata.ownerReferences",
          owners,
          `Only one reference can have Controller set to true. Found "true" in references for ${names.join(" and ")}`,
        ),
      ];
}

export function validateMeta(kind: Kind, object: KubeObject): Cause[] {
  const meta = object.metadata;
  return [
    ...nameCauses(kind, meta),
    ...namespaceCauses(kind, meta),
    ...labelCauses(meta.labels ?? {}),
    ...annotationCauses(meta.annotations ?? {}),
    ...finalizerCauses(kind, meta.finalizers ?? []),
    ...propagationCauses(meta.finalizers ?? []),
    ...ownerCauses(meta),
  ];
}

/** Rejects new finalizers while the object is being deleted. */
export function validateMetaUpdate(object: KubeObject, current: KubeObject): Cause[] {
  if (current.metadata.deletionTimestamp === undefined) {
    return [];
  }
  const knownFinalizers = new Set(current.metadata.finalizers);
  const addedFinalizers = (object.metadata.finalizers ?? []).filter(
    (finalizer) => !knownFinalizers.has(finalizer),
  );
  return addedFinalizers.length === 0
    ? []
    : [
        forbiddenValue(
          "metadata.finalizers",
          `no new finalizers can be added if the object is being deleted, found new finalizers []string{${addedFinalizers.map((name) => `"${name}"`).join(", ")}}`,
        ),
      ];
}
