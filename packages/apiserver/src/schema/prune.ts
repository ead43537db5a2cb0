// SPDX-License-Identifier: Apache-2.0
// Drops fields that a structural schema does not know. Source: apiextensions pruning.
import { type Fields, isFields } from "../objects/json.ts";
import { EMBEDDED, type Schema, allowsAnyKey, itemSchema, propertySchema } from "./structural.ts";

const OBJECT_KEYS: ReadonlySet<string> = new Set(["apiVersion", "kind", "metadata"]);

function pruneFields(value: Fields, schema: Schema, kept: ReadonlySet<string>): void {
  for (const key of Object.keys(value)) {
    const property = propertySchema(schema, key);
    if (kept.has(key)) {
      continue;
    }
    if (property !== undefined) {
      prune(value[key], property);
    } else if (!allowsAnyKey(schema)) {
      Reflect.deleteProperty(value, key);
    }
  }
}

/** Drops unknown fields from a value. Changes it. */
export function prune(value: unknown, schema: Schema): void {
  if (Array.isArray(value)) {
    const items = itemSchema(schema);
    if (items !== undefined) {
      for (const item of value) {
        prune(item, items);
      }
    }
    return;
  }
  if (isFields(value)) {
    pruneFields(value, schema, schema[EMBEDDED] === true ? OBJECT_KEYS : new Set());
  }
}

/** Drops unknown fields from an object, whose apiVersion, kind and metadata stay. Changes it. */
export function pruneObject(object: Fields, schema: Schema): void {
  pruneFields(object, schema, OBJECT_KEYS);
}
