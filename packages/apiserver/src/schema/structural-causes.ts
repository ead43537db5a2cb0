// SPDX-License-Identifier: Apache-2.0
// Is a schema structural? Source: apiextensions/v1 "structural schema".
import type { Cause } from "../http/status.ts";
import { forbiddenValue, requiredValue } from "../meta/causes.ts";
import { fieldsOf, isFields } from "../objects/json.ts";
import { INT_OR_STRING, PRESERVE, type Schema, itemSchema } from "./structural.ts";

function typeCauses(schema: Schema, path: string): Cause[] {
  const { type } = schema;
  const typed = typeof type === "string" && type !== "";
  return typed || schema[INT_OR_STRING] === true || schema[PRESERVE] === true
    ? []
    : [requiredValue(`${path}.type`, "must not be empty for specified object fields")];
}

/** Causes for which a schema is refused. */
export function schemaCauses(schema: Schema, path: string): Cause[] {
  const items = itemSchema(schema);
  const { additionalProperties, properties } = schema;
  return [
    ...typeCauses(schema, path),
    ...(schema["type"] === "array" && items === undefined
      ? [requiredValue(`${path}.items`, "must be specified")]
      : []),
    ...(isFields(properties) && additionalProperties !== undefined && additionalProperties !== false
      ? [
          forbiddenValue(
            `${path}.additionalProperties`,
            "additionalProperties and properties are mutual exclusive",
          ),
        ]
      : []),
    ...Object.entries(fieldsOf(properties)).flatMap(([key, property]) =>
      key === "metadata" && !isFields(fieldsOf(property)["properties"])
        ? []
        : schemaCauses(fieldsOf(property), `${path}.properties[${key}]`),
    ),
    ...(items === undefined ? [] : schemaCauses(items, `${path}.items`)),
    ...(isFields(additionalProperties)
      ? schemaCauses(additionalProperties, `${path}.additionalProperties`)
      : []),
  ];
}
