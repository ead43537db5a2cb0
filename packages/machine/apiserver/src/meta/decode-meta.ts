// SPDX-License-Identifier: Apache-2.0
// Reads metadata from a client: known fields of the right types; everything else is dropped or refused.
import { badRequest } from "./status.ts";
import { type Fields, isFields, setField } from "../objects/json.ts";
import type { Meta, OwnerReference } from "../objects/object.ts";

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

/** The name Go's decoder has for a JSON value. */
export function jsonTypeOf(value: unknown): string {
  if (Array.isArray(value)) {
    return "array";
  }
  if (typeof value === "boolean") {
    return "bool";
  }
  return typeof value === "bigint" ? "number" : typeof value;
}

/** The refusal of a value of the wrong type, worded as Go's decoder does. */
export function cannotUnmarshal(value: unknown, field: string, type: string): Error {
  return badRequest(
    `json: cannot unmarshal ${jsonTypeOf(value)} into Go struct field ${field} of type ${type}`,
  );
}

function strings(value: unknown, field: string): string[] {
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

function stringMap(value: unknown, field: string): Record<string, string> {
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

function owners(value: unknown, field: string): Fields[] {
  if (!Array.isArray(value)) {
    throw cannotUnmarshal(value, field, "[]v1.OwnerReference");
  }
  return value.map((item: unknown) => {
    if (!isFields(item)) {
      throw cannotUnmarshal(item, field, "v1.OwnerReference");
    }
    return decodeKnown(item, OWNER_FIELDS, field);
  });
}

const DECODERS: Readonly<Record<FieldType, (value: unknown, field: string) => unknown>> = {
  any: (value) => value,
  map: stringMap,
  strings,
  owners,
  string: (value, field) => ofType(value, "string", field),
  number: (value, field) => ofType(value, "number", field),
  boolean: (value, field) => ofType(value, "boolean", field),
};

function ofType(value: unknown, type: "string" | "number" | "boolean", field: string): unknown {
  if (typeof value !== type) {
    throw cannotUnmarshal(value, field, type === "number" ? "int64" : type);
  }
  return value;
}

function decodeKnown(
  value: Fields,
  known: Readonly<Record<string, FieldType>>,
  path: string,
): Fields {
  const decoded: Fields = {};
  for (const [key, type] of Object.entries(known)) {
    const field = value[key];
    if (field !== undefined && field !== null) {
      decoded[key] = DECODERS[type](field, `${path}.${key}`);
    }
  }
  return decoded;
}

function dropEmpty(meta: Fields): void {
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

/**
 * Metadata as the server keeps it; field managers are not recorded.
 * Throws a StatusError 400 where a value has the wrong type.
 */
export function decodeMeta(value: unknown, kind: string): Meta {
  if (value !== undefined && value !== null && !isFields(value)) {
    throw cannotUnmarshal(value, `${kind}.metadata`, "v1.ObjectMeta");
  }
  const decoded = decodeKnown(isFields(value) ? value : {}, META_FIELDS, "ObjectMeta");
  dropEmpty(decoded);
  // Every field was checked against META_FIELDS, which lists Meta's fields and types.
  return { name: "", ...decoded };
}
