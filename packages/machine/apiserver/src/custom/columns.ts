// SPDX-License-Identifier: Apache-2.0
// Printer columns of custom resources. Source: apiextensions/v1 CustomResourceColumnDefinition.
import type { Column } from "../kinds/kind.ts";
import { type Fields, asText, fieldsOf, listOf, textAt, valueAt } from "../objects/json.ts";
import { parseTime } from "../objects/time.ts";
import { AGE, ageOf } from "../table/age.ts";
import { parsePath } from "../table/json-path.ts";

function toColumnType(type: string): Column["type"] {
  switch (type) {
    case "integer":
    case "number":
    case "boolean":
    case "date":
      return type;
    default:
      return "string";
  }
}

/** How a value is shown; one of another type than the column's is not. Source: apiextensions tableconvertor. */
const CELLS: Readonly<Record<Column["type"], (value: unknown, nowMs: number) => unknown>> = {
  boolean: (value) => (typeof value === "boolean" ? value : null),
  date: (value, nowMs) => (typeof value === "string" ? dateCell(value, nowMs) : null),
  integer: (value) => (typeof value === "number" ? Math.trunc(value) : toLongInteger(value)),
  number: (value) => (typeof value === "number" ? value : toLongInteger(value)),
  string: asText,
};

function dateCell(text: string, nowMs: number): string {
  return Number.isNaN(parseTime(text)) ? "<invalid>" : ageOf(text, nowMs);
}

function toLongInteger(value: unknown): unknown {
  return typeof value === "bigint" ? value : null;
}

function toCell(type: Column["type"], value: unknown, nowMs: number): unknown {
  return value === undefined || value === null ? null : CELLS[type](value, nowMs);
}

/** A column of a definition. */
export function toColumn(definition: Fields): Column {
  const find = parsePath(textAt(definition, "jsonPath"));
  const type = toColumnType(textAt(definition, "type"));
  return {
    name: textAt(definition, "name"),
    type,
    format: textAt(definition, "format"),
    description: textAt(definition, "description"),
    priority: Number(valueAt(definition, "priority") ?? 0),
    cell: (object, nowMs) => {
      const found = find(object);
      const value = found.length > 1 ? found.map(String).join(",") : found[0];
      return toCell(type, value, nowMs);
    },
  };
}

/** Columns behind Name: those of the definition, or Age where it has none. */
export function columnsOf(definitions: unknown): readonly Column[] {
  const columns = listOf(definitions).map((definition) => toColumn(fieldsOf(definition)));
  return columns.length === 0 ? [AGE] : columns;
}
