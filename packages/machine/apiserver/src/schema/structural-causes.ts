// SPDX-License-Identifier: Apache-2.0
// Is a schema structural? Source: apiextensions/v1 "structural schema".
import type { Cause } from "../meta/status.ts";
import { forbiddenValue, invalidValue, requiredValue, unsupportedValue } from "../meta/causes.ts";
import { fieldsOf, isFields, listOf } from "../objects/json.ts";
import {
  INT_OR_STRING,
  LIST_MAP_KEYS,
  LIST_TYPE,
  PRESERVE,
  type Schema,
  itemSchema,
} from "./structural.ts";

const LIST_TYPES: readonly string[] = ["atomic", "map", "set"];

function typeCauses(schema: Schema, path: string): Cause[] {
  const { type } = schema;
  const typed = typeof type === "string" && type !== "";
  return typed || schema[INT_OR_STRING] === true || schema[PRESERVE] === true
    ? []
    : [requiredValue(`${path}.type`, "must not be empty for specified object fields")];
}

/** Keywords of JSON Schema that a structural schema has no use for. */
const FORBIDDEN: readonly string[] = [
  "$ref",
  "additionalItems",
  "definitions",
  "dependencies",
  "id",
  "patternProperties",
];

function keywordCauses(schema: Schema, path: string): Cause[] {
  const used = FORBIDDEN.filter((key) => schema[key] !== undefined);
  return [
    ...used.map((key) => forbiddenValue(`${path}.${key}`, `${key} is not supported`)),
    ...(schema["uniqueItems"] === true
      ? [
          forbiddenValue(
            `${path}.uniqueItems`,
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
          ),
        ]
      : []),
    ...(schema[PRESERVE] === false
      ? [invalidValue(`${path}.${PRESERVE}`, false, "must be true or undefined")]
      : []),
  ];
}

function listTypeCauses(schema: Schema, path: string): Cause[] {
  const type = schema[LIST_TYPE];
  if (type === undefined || type === null) {
    return [];
  }
  const field = `${path}.${LIST_TYPE}`;
  const keys = listOf(schema[LIST_MAP_KEYS]).length;
  if (!LIST_TYPES.some((known) => known === type)) {
    return [unsupportedValue(field, type, LIST_TYPES)];
  }
  if (schema["type"] !== "array") {
    return [
      invalidValue(`${path}.type`, schema["type"], `must be array if ${LIST_TYPE} is specified`),
    ];
  }
  return type === "map" && keys === 0
    ? [
        requiredValue(
          `${path}.${LIST_MAP_KEYS}`,
          "must not be empty if x-kubernetes-list-type is map",
        ),
      ]
    : [];
}

/** Causes for which a schema is refused. */
export function schemaCauses(schema: Schema, path: string): Cause[] {
  const items = itemSchema(schema);
  const { additionalProperties, properties } = schema;
  return [
    ...typeCauses(schema, path),
    ...keywordCauses(schema, path),
    ...listTypeCauses(schema, path),
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
