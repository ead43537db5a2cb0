// SPDX-License-Identifier: Apache-2.0
// Are lists that are sets or maps free of duplicates? Source: apiextensions listtype validation.
import type { Cause } from "../meta/status.ts";
import { duplicateValue } from "../meta/causes.ts";
import { fieldsOf, isFields, listOf, printJson } from "../objects/json.ts";
import { LIST_MAP_KEYS, LIST_TYPE, type Schema, itemSchema, propertySchema } from "./structural.ts";

function keyOf(item: unknown, schema: Schema): unknown {
  if (schema[LIST_TYPE] === "set") {
    return item;
  }
  const keys = listOf(schema[LIST_MAP_KEYS]).map(String);
  const defaults = fieldsOf(itemSchema(schema)?.["properties"]);
  return Object.fromEntries(
    keys.map((key) => [key, fieldsOf(item)[key] ?? fieldsOf(defaults[key])["default"]]),
  );
}

function duplicates(list: readonly unknown[], schema: Schema, path: string): Cause[] {
  const seen = new Set<string>();
  return list.flatMap((item, index) => {
    const key = keyOf(item, schema);
    const printed = printJson(key);
    if (seen.has(printed)) {
      return [duplicateValue(`${path}[${String(index)}]`, key)];
    }
    seen.add(printed);
    return [];
  });
}

/** Causes for which lists below a value are refused. */
export function listCauses(value: unknown, schema: Schema, path: string): Cause[] {
  if (Array.isArray(value)) {
    const items = itemSchema(schema);
    const unique = schema[LIST_TYPE] === "set" || schema[LIST_TYPE] === "map";
    return [
      ...(unique ? duplicates(value, schema, path) : []),
      ...(items === undefined
        ? []
        : value.flatMap((item, index) => listCauses(item, items, `${path}[${String(index)}]`))),
    ];
  }
  if (!isFields(value)) {
    return [];
  }
  return Object.entries(value).flatMap(([key, field]) => {
    const property = propertySchema(schema, key);
    const below = path === "" ? key : `${path}.${key}`;
    return property === undefined ? [] : listCauses(field, property, below);
  });
}
