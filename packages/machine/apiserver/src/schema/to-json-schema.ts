// SPDX-License-Identifier: Apache-2.0
// A structural schema as JSON Schema for the validator.
import { type Fields, fieldsOf, isFields, listOf } from "../objects/json.ts";
import { EMBEDDED, INT_OR_STRING, type Schema, isNullable } from "./structural.ts";

/** Keywords that mean the same in both. */
const SAME = [
  "format",
  "maximum",
  "minimum",
  "maxLength",
  "minLength",
  "pattern",
  "maxItems",
  "minItems",
  "uniqueItems",
  "multipleOf",
  "maxProperties",
  "minProperties",
  "required",
  "enum",
] as const;

const COMBINATIONS = ["allOf", "anyOf", "oneOf"] as const;

function typeOf(schema: Schema): unknown {
  if (schema[INT_OR_STRING] === true) {
    return isNullable(schema) ? ["integer", "string", "null"] : ["integer", "string"];
  }
  const { type } = schema;
  return typeof type === "string" && isNullable(schema) ? [type, "null"] : type;
}

/** Draft 4 knows exclusive limits as flags. */
function exclusiveLimits(schema: Schema): Fields {
  return {
    ...(schema["exclusiveMinimum"] === true ? { exclusiveMinimum: schema["minimum"] } : {}),
    ...(schema["exclusiveMaximum"] === true ? { exclusiveMaximum: schema["maximum"] } : {}),
  };
}

function childSchemas(schema: Schema): Fields {
  const { properties, additionalProperties, items, not } = schema;
  const children: Fields = {};
  if (isFields(properties)) {
    children["properties"] = Object.fromEntries(
      Object.entries(properties).map(([key, property]) => [key, toJsonSchema(fieldsOf(property))]),
    );
  }
  if (isFields(additionalProperties)) {
    children["additionalProperties"] = toJsonSchema(additionalProperties);
  }
  if (isFields(items)) {
    children["items"] = toJsonSchema(items);
  }
  if (isFields(not)) {
    children["not"] = toJsonSchema(not);
  }
  return children;
}

function combinations(schema: Schema): Fields {
  // The pattern that says "integer or string" in words is what the type says already.
  const given = COMBINATIONS.filter(
    (key) => schema[key] !== undefined && !(key === "anyOf" && schema[INT_OR_STRING] === true),
  );
  return Object.fromEntries(
    given.map((key) => [key, listOf(schema[key]).map((part) => toJsonSchema(fieldsOf(part)))]),
  );
}

/** The schema for the validator. Defaults are left out: they are filled in before. */
export function toJsonSchema(schema: Schema): Fields {
  const result: Fields = {};
  const type = typeOf(schema);
  if (type !== undefined) {
    result["type"] = type;
  }
  for (const key of SAME) {
    if (schema[key] !== undefined) {
      result[key] = schema[key];
    }
  }
  if (isNullable(schema) && Array.isArray(schema["enum"])) {
    result["enum"] = [...listOf(schema["enum"]), null];
  }
  if (schema[EMBEDDED] === true) {
    const required = listOf(schema["required"]);
    result["required"] = [...new Set([...required, "apiVersion", "kind", "metadata"])];
  }
  return {
    ...result,
    ...exclusiveLimits(schema),
    ...childSchemas(schema),
    ...combinations(schema),
  };
}
