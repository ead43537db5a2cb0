// SPDX-License-Identifier: Apache-2.0
// The members of a structural schema, read once. Source: apiextensions/v1 JSONSchemaProps.
import { type Fields, fieldsOf, isFields } from "../objects/json.ts";

/** A schema as clients write it; nothing in it is trusted to have the right type. */
export type Schema = Fields;

export const PRESERVE = "x-kubernetes-preserve-unknown-fields";
export const INT_OR_STRING = "x-kubernetes-int-or-string";
export const EMBEDDED = "x-kubernetes-embedded-resource";
export const LIST_TYPE = "x-kubernetes-list-type";
export const LIST_MAP_KEYS = "x-kubernetes-list-map-keys";

/** Schema of one field; undefined where none is given. */
export function propertySchema(schema: Schema, key: string): Schema | undefined {
  const properties = fieldsOf(schema["properties"]);
  const property = Object.hasOwn(properties, key) ? properties[key] : undefined;
  if (isFields(property)) {
    return property;
  }
  const { additionalProperties } = schema;
  return isFields(additionalProperties) ? additionalProperties : undefined;
}

/** Schema of the items of a list. */
export function itemSchema(schema: Schema): Schema | undefined {
  const { items } = schema;
  return isFields(items) ? items : undefined;
}

/** Whether a map may have any key. */
export function allowsAnyKey(schema: Schema): boolean {
  return schema[PRESERVE] === true || schema["additionalProperties"] === true;
}

/** Whether null is a value here. */
export function isNullable(schema: Schema): boolean {
  return schema["nullable"] === true;
}
