// SPDX-License-Identifier: Apache-2.0
// Finds and drops fields that a structural schema does not know. Source: apiextensions pruning.
import { type Fields, isFields } from "../objects/json.ts";
import { EMBEDDED, type Schema, allowsAnyKey, itemSchema, propertySchema } from "./structural.ts";

const OBJECT_KEYS: ReadonlySet<string> = new Set(["apiVersion", "kind", "metadata"]);
const NO_KEYS: ReadonlySet<string> = new Set();

/** A field that the schema does not know. */
export interface UnknownField {
  readonly owner: Fields;
  readonly key: string;
  /** For people, for example `spec.tags[1].x`. */
  readonly path: string;
}

/** Where a value stands: its path, and keys that are known without a schema. */
interface Place {
  readonly path: string;
  readonly known: ReadonlySet<string>;
}

function unknownIn(value: Fields, schema: Schema, place: Place): UnknownField[] {
  return Object.keys(value)
    .filter((key) => !place.known.has(key))
    .flatMap((key) => {
      const property = propertySchema(schema, key);
      const path = place.path === "" ? key : `${place.path}.${key}`;
      if (property !== undefined) {
        return unknownBelow(value[key], property, path);
      }
      return allowsAnyKey(schema) ? [] : [{ owner: value, key, path }];
    });
}

function unknownBelow(value: unknown, schema: Schema, path: string): UnknownField[] {
  if (Array.isArray(value)) {
    const items = itemSchema(schema);
    return items === undefined
      ? []
      : value.flatMap((item, index) => unknownBelow(item, items, `${path}[${String(index)}]`));
  }
  const known = schema[EMBEDDED] === true ? OBJECT_KEYS : NO_KEYS;
  return isFields(value) ? unknownIn(value, schema, { path, known }) : [];
}

/** Fields of an object that its schema does not know; apiVersion, kind and metadata are always known. */
export function unknownFields(object: Fields, schema: Schema): readonly UnknownField[] {
  return unknownIn(object, schema, { path: "", known: OBJECT_KEYS });
}

/** Drops unknown fields from an object. Changes it. */
export function pruneObject(object: Fields, schema: Schema): void {
  for (const { owner, key } of unknownFields(object, schema)) {
    Reflect.deleteProperty(owner, key);
  }
}
