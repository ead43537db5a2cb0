// SPDX-License-Identifier: Apache-2.0
// From a body to an object of the kind that the path names.
import { badRequest } from "../http/status.ts";
import { type Kind, apiVersionOf } from "../kinds/kind.ts";
import { cannotUnmarshal, decodeMeta } from "../meta/decode-meta.ts";
import { type Fields, asText, isFields, without } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { INT_OR_STRING, itemSchema, propertySchema } from "../schema/structural.ts";

function isOfType(value: unknown, type: unknown): boolean {
  switch (type) {
    case "string":
      return typeof value === "string";
    case "integer":
      return typeof value === "bigint" || Number.isInteger(value);
    case "boolean":
      return typeof value === "boolean";
    case "array":
      return Array.isArray(value);
    case "object":
      return isFields(value);
    default:
      return true;
  }
}

const GO_TYPES: Readonly<Record<string, string>> = {
  string: "string",
  integer: "int32",
  boolean: "bool",
  array: "[]",
  object: "map[string]",
};

function checkItems(value: readonly unknown[], schema: Fields, path: string): void {
  const items = itemSchema(schema);
  if (items !== undefined) {
    for (const item of value) {
      checkTypes(item, items, path);
    }
  }
}

function checkFields(value: Fields, schema: Fields, path: string): void {
  for (const [key, field] of Object.entries(value)) {
    const property = propertySchema(schema, key);
    if (property !== undefined) {
      checkTypes(field, property, `${path}.${key}`);
    }
  }
}

/** Refuses values of a built-in kind that have the wrong JSON type, as a typed decoder does. */
function checkTypes(value: unknown, schema: Fields, path: string): void {
  if (value === null || value === undefined || schema[INT_OR_STRING] === true) {
    return;
  }
  const type = asText(schema["type"]);
  if (!isOfType(value, type)) {
    throw cannotUnmarshal(value, path, GO_TYPES[type] ?? type);
  }
  if (Array.isArray(value)) {
    checkItems(value, schema, path);
  } else if (isFields(value)) {
    checkFields(value, schema, path);
  }
}

/** The body of a built-in kind may leave out what the path says. */
function isGiven(kind: Kind, text: string): boolean {
  return kind.custom !== undefined || text !== "";
}

function checkTypeMeta(kind: Kind, fields: Fields): void {
  const expected = apiVersionOf(kind);
  const apiVersion = asText(fields["apiVersion"]);
  const name = asText(fields["kind"]);
  if (isGiven(kind, name) && name !== kind.kind) {
    throw badRequest(
      `${kind.kind} in version "${kind.version}" cannot be handled as a ${kind.kind}: the object provided is unrecognized (must be of type ${kind.kind}): got kind "${name}"`,
    );
  }
  if (isGiven(kind, apiVersion) && apiVersion !== expected) {
    throw badRequest(
      `the API version in the data (${apiVersion}) does not match the expected API version (${expected})`,
    );
  }
}

/** Makes an object of `fields`, which it takes over. Throws a StatusError 400. */
export function toObject(kind: Kind, fields: Fields): KubeObject {
  checkTypeMeta(kind, fields);
  if (kind.custom === undefined) {
    checkTypes(fields, kind.strategy.schema, kind.kind);
  }
  return {
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: decodeMeta(fields["metadata"], kind.kind),
    ...without(fields, "apiVersion", "kind", "metadata"),
  };
}
