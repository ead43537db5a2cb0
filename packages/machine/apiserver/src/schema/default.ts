// SPDX-License-Identifier: Apache-2.0
// Fills in defaults of a structural schema, and drops null where it is no value. Source: apiextensions defaulting.
import { type Fields, copyJson, fieldsOf, isFields } from "../objects/json.ts";
import { type Schema, isNullable, itemSchema, propertySchema } from "./structural.ts";

function dropNull(value: Fields, schema: Schema): void {
  for (const key of Object.keys(value)) {
    const property = propertySchema(schema, key);
    if (value[key] === null && property !== undefined && !isNullable(property)) {
      Reflect.deleteProperty(value, key);
    }
  }
}

function addDefaults(value: Fields, schema: Schema): void {
  for (const [key, property] of Object.entries(fieldsOf(schema["properties"]))) {
    if (isFields(property) && property["default"] !== undefined && value[key] === undefined) {
      value[key] = copyJson(property["default"]);
    }
  }
}

/** Fills in defaults. Changes the value. */
export function applyDefaults(value: unknown, schema: Schema): void {
  if (Array.isArray(value)) {
    const items = itemSchema(schema);
    if (items !== undefined) {
      for (const item of value) {
        applyDefaults(item, items);
      }
    }
    return;
  }
  if (!isFields(value)) {
    return;
  }
  dropNull(value, schema);
  addDefaults(value, schema);
  for (const [key, field] of Object.entries(value)) {
    const property = propertySchema(schema, key);
    if (property !== undefined) {
      applyDefaults(field, property);
    }
  }
}
