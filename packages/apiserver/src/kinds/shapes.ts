// SPDX-License-Identifier: Apache-2.0
// Words for writing down the form of built-in kinds (OpenAPI v3).
import type { Fields } from "../objects/json.ts";

export const TEXT: Fields = { type: "string" };
export const INTEGER: Fields = { type: "integer" };
export const BOOLEAN: Fields = { type: "boolean" };
/** Anything at all. */
export const ANY: Fields = { "x-kubernetes-preserve-unknown-fields": true };
/** An object whose fields are not written down here. */
export const FREE: Fields = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
/** Names to texts. */
export const TEXTS_BY_NAME: Fields = { type: "object", additionalProperties: TEXT };
/** A number or a text, as quantities and ports are. */
export const INTEGER_OR_TEXT: Fields = { "x-kubernetes-int-or-string": true };

/** A list of `items`. */
export function listShape(items: Fields): Fields {
  return { type: "array", items };
}

/** An object with these fields, and others. */
export function objectShape(properties: Fields, description?: string): Fields {
  return {
    type: "object",
    ...(description === undefined ? {} : { description }),
    properties,
    "x-kubernetes-preserve-unknown-fields": true,
  };
}

/** A list of objects with these fields. */
export function listOfObjects(properties: Fields): Fields {
  return listShape(objectShape(properties));
}

/** Conditions of a status. */
export const CONDITIONS: Fields = listOfObjects({
  type: TEXT,
  status: TEXT,
  reason: TEXT,
  message: TEXT,
  lastTransitionTime: TEXT,
});
