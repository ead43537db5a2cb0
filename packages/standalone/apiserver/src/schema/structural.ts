// SPDX-License-Identifier: Apache-2.0
// Structural schemas of custom resources. Source: apiextensions/v1 JSONSchemaProps and "structural schema".
import { type Fields, asFields, isFields, asList } from "../objects/json.ts";
import type { Cause } from "../meta/status.ts";
import { forbiddenValue, invalidValue, requiredValue, unsupportedValue } from "../meta/causes.ts";

/** A schema as the client wrote it, so its members may have the wrong type. */
export type Schema = Fields;

const PRESERVE_UNKNOWN = "x-kubernetes-preserve-unknown-fields";
export const INT_OR_STRING = "x-kubernetes-int-or-string";
export const EMBEDDED_RESOURCE = "x-kubernetes-embedded-resource";
export const LIST_TYPE = "x-kubernetes-list-type";
export const LIST_MAP_KEYS = "x-kubernetes-list-map-keys";

export function propertySchema(schema: Schema, key: string): Schema | undefined {
  const properties = asFields(schema["properties"]);
  const property = Object.hasOwn(properties, key) ? properties[key] : undefined;
  if (isFields(property)) {
    return property;
  }
  const { additionalProperties } = schema;
  return isFields(additionalProperties) ? additionalProperties : undefined;
}

export function itemSchema(schema: Schema): Schema | undefined {
  const { items } = schema;
  return isFields(items) ? items : undefined;
}

export function allowsAnyKey(schema: Schema): boolean {
  return schema[PRESERVE_UNKNOWN] === true || schema["additionalProperties"] === true;
}

export function isNullable(schema: Schema): boolean {
  return schema["nullable"] === true;
}

const LIST_TYPES: readonly string[] = ["atomic", "map", "set"];

function typeCauses(schema: Schema, path: string): Cause[] {
  const { type } = schema;
  const hasType = typeof type === "string" && type !== "";
  return hasType || schema[INT_OR_STRING] === true || schema[PRESERVE_UNKNOWN] === true
    ? []
    : [requiredValue(`${path}.type`, "must not be empty for specified object fields")];
}

const FORBIDDEN_KEYWORDS: readonly string[] = [
  "$ref",
  "additionalItems",
  "definitions",
  "dependencies",
  "id",
  "patternProperties",
];

function keywordCauses(schema: Schema, path: string): Cause[] {
  const usedKeywords = FORBIDDEN_KEYWORDS.filter((key) => schema[key] !== undefined);
  return [
    ...usedKeywords.map((key) => forbiddenValue(`${path}.${key}`, `${key} is not supported`)),
    ...(schema["uniqueItems"] === true
      ? [
          forbiddenValue(
            `${path}.uniqueItems`,
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
          ),
        ]
      : []),
    ...(schema[PRESERVE_UNKNOWN] === false
      ? [invalidValue(`${path}.${PRESERVE_UNKNOWN}`, false, "must be true or undefined")]
      : []),
  ];
}

function listTypeCauses(schema: Schema, path: string): Cause[] {
  const type = schema[LIST_TYPE];
  if (type === undefined || type === null) {
    return [];
  }
  const field = `${path}.${LIST_TYPE}`;
  const keys = asList(schema[LIST_MAP_KEYS]).length;
  if (!LIST_TYPES.some((listType) => listType === type)) {
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
    ...Object.entries(asFields(properties)).flatMap(([key, property]) =>
      key === "metadata" && !isFields(asFields(property)["properties"])
        ? []
        : schemaCauses(asFields(property), `${path}.properties[${key}]`),
    ),
    ...(items === undefined ? [] : schemaCauses(items, `${path}.items`)),
    ...(isFields(additionalProperties)
      ? schemaCauses(additionalProperties, `${path}.additionalProperties`)
      : []),
  ];
}
