// SPDX-License-Identifier: Apache-2.0
// Pruning and defaulting by structural schemas. Source: apiextensions pruning and defaulting.
import { type Fields, copyJson, asFields, isFields } from "../objects/json.ts";
import {
  type Schema,
  EMBEDDED_RESOURCE,
  allowsAnyKey,
  isNullable,
  itemSchema,
  propertySchema,
} from "./structural.ts";

const OBJECT_KEYS: ReadonlySet<string> = new Set(["apiVersion", "kind", "metadata"]);
const NO_KEYS: ReadonlySet<string> = new Set();

interface UnknownField {
  readonly owner: Fields;
  readonly key: string;
  /** Path of the field, for example `spec.tags[1].x`. */
  readonly path: string;
}

interface PruneContext {
  readonly path: string;
  readonly knownKeys: ReadonlySet<string>;
}

function findUnknownFields(value: Fields, schema: Schema, context: PruneContext): UnknownField[] {
  return Object.keys(value)
    .filter((key) => !context.knownKeys.has(key))
    .flatMap((key) => {
      const property = propertySchema(schema, key);
      const path = context.path === "" ? key : `${context.path}.${key}`;
      if (property !== undefined) {
        return findUnknownBelow(value[key], property, path);
      }
      return allowsAnyKey(schema) ? [] : [{ owner: value, key, path }];
    });
}

function findUnknownBelow(value: unknown, schema: Schema, path: string): UnknownField[] {
  if (Array.isArray(value)) {
    const items = itemSchema(schema);
    return items === undefined
      ? []
      : value.flatMap((item, index) => findUnknownBelow(item, items, `${path}[${String(index)}]`));
  }
  const knownKeys = schema[EMBEDDED_RESOURCE] === true ? OBJECT_KEYS : NO_KEYS;
  return isFields(value) ? findUnknownFields(value, schema, { path, knownKeys }) : [];
}

/** Returns unknown fields. apiVersion, kind and metadata are always known. */
export function unknownFields(object: Fields, schema: Schema): readonly UnknownField[] {
  return findUnknownFields(object, schema, { path: "", knownKeys: OBJECT_KEYS });
}

export function pruneObject(object: Fields, schema: Schema): void {
  for (const { owner, key } of unknownFields(object, schema)) {
    Reflect.deleteProperty(owner, key);
  }
}

function dropNull(value: Fields, schema: Schema): void {
  for (const key of Object.keys(value)) {
    const property = propertySchema(schema, key);
    if (value[key] === null && property !== undefined && !isNullable(property)) {
      Reflect.deleteProperty(value, key);
    }
  }
}

function addDefaults(value: Fields, schema: Schema): void {
  for (const [key, property] of Object.entries(asFields(schema["properties"]))) {
    if (isFields(property) && property["default"] !== undefined && value[key] === undefined) {
      value[key] = copyJson(property["default"]);
    }
  }
}

/** Sets defaults, and drops nulls of fields that are not nullable. Changes `value` in place. */
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
