// SPDX-License-Identifier: Apache-2.0
// Walks a value together with its schema, to find unsupported fields and quantities.
import { isJsonObject, type JsonObject } from "../values/json.ts";
import { memoize } from "../values/memoize.ts";
import {
  findMark,
  findValueMark,
  isUnset,
  isQuantity,
  type FieldList,
  type FieldMark,
  type JsonSchema,
} from "./notation.ts";

export interface UnactedField {
  /** With indexes, for example `spec.domain.devices.interfaces[0].tag`. */
  readonly path: string;
  readonly mark: FieldMark;
}

function schemaAt(schema: JsonSchema, key: string): JsonSchema | undefined {
  const child = schema[key];
  return isJsonObject(child) ? child : undefined;
}

interface SchemaValue {
  readonly path: string;
  readonly schema: JsonSchema;
  readonly value: unknown;
}

/** Cached, because every object is walked with the same few schemas. */
const listMembers = memoize((schema: JsonSchema) =>
  Object.entries(schemaAt(schema, "properties") ?? {}).flatMap(([key, child]) =>
    isJsonObject(child) ? [[key, child] as const] : [],
  ),
);

function rootOf(schema: object): JsonSchema {
  return isJsonObject(schema) ? schema : {};
}

/** Lists members, array entries or map values, in the order of the schema. */
function listChildren({ path, schema, value }: SchemaValue): readonly SchemaValue[] {
  if (Array.isArray(value)) {
    const items = schemaAt(schema, "items") ?? {};
    return value.map((entry: unknown, index) => ({
      path: `${path}[${String(index)}]`,
      schema: items,
      value: entry,
    }));
  }
  if (!isJsonObject(value)) return [];
  const at = (key: string): string => (path === "" ? key : `${path}.${key}`);
  const values = schemaAt(schema, "additionalProperties");
  if (values !== undefined) {
    return Object.keys(value).map((key) => ({ path: at(key), schema: values, value: value[key] }));
  }
  const children: SchemaValue[] = [];
  for (const [key, child] of listMembers(schema)) {
    if (value[key] !== undefined)
      children.push({ path: at(key), schema: child, value: value[key] });
  }
  return children;
}

/** Returns a predicate: whether a schema or a schema below it matches. Walks skip subtrees that cannot match. */
function canReach(matches: (schema: JsonSchema) => boolean): (schema: JsonSchema) => boolean {
  const reaches = memoize(
    (schema: JsonSchema): boolean => matches(schema) || schemasBelow(schema).some(reaches),
  );
  return reaches;
}

function schemasBelow(schema: JsonSchema): readonly JsonSchema[] {
  const entries = [schemaAt(schema, "items"), schemaAt(schema, "additionalProperties")];
  return [
    ...entries.filter((child) => child !== undefined),
    ...listMembers(schema).map(([, child]) => child),
  ];
}

const leadsToMarks = canReach(
  (schema) => findMark(schema) !== undefined || findValueMark(schema) !== undefined,
);
const leadsToQuantities = canReach(isQuantity);

/** Returns a mark if the field, or its present value, is not acted on. */
function markOf({ schema, value }: SchemaValue): FieldMark | undefined {
  const mark = findMark(schema);
  if (mark !== undefined) return mark;
  const values = findValueMark(schema);
  const isBuilt = values?.isBuilt(value) ?? true;
  return values === undefined || isBuilt ? undefined : { list: "unbuilt", hint: values.hint };
}

function unactedBelow(schemaValue: SchemaValue): readonly UnactedField[] {
  const { path, schema, value } = schemaValue;
  if (isUnset(value) || !leadsToMarks(schema)) return [];
  const mark = markOf(schemaValue);
  if (mark === undefined) return listChildren(schemaValue).flatMap(unactedBelow);
  return mark.unless?.(value) === true ? [] : [{ path, mark }];
}

/** Lists fields in the order of the schema; only the topmost one, which users have to remove. */
export function unactedFields(
  schema: object,
  value: unknown,
  path: string,
): readonly UnactedField[] {
  return unactedBelow({ path, schema: rootOf(schema), value });
}

function actedMembers(schema: JsonSchema, value: JsonObject): JsonObject | undefined {
  const [values, members] = ["additionalProperties", "properties"].map((at) =>
    schemaAt(schema, at),
  );
  const entries = Object.entries(value).flatMap(([key, child]) => {
    const childSchema = values ?? schemaAt(members ?? {}, key) ?? {};
    const acted = actedBelow({ path: key, schema: childSchema, value: child });
    return acted === undefined ? [] : [[key, acted] as const];
  });
  const isEmptied = entries.length === 0 && Object.keys(value).length > 0;
  return isEmptied ? undefined : Object.fromEntries(entries);
}

function actedBelow(schemaValue: SchemaValue): unknown {
  const { schema, value } = schemaValue;
  if (isUnset(value) || !leadsToMarks(schema)) return value;
  const mark = markOf(schemaValue);
  if (mark !== undefined) {
    const isDropped = mark.list === "harmless" && mark.unless?.(value) !== true;
    return isDropped ? undefined : value;
  }
  if (Array.isArray(value))
    return listChildren(schemaValue).map((entry) => actedBelow(entry) ?? {});
  return isJsonObject(value) ? actedMembers(schema, value) : value;
}

/** Copies `value` without its harmless fields. Objects that become empty are dropped. */
export function withoutHarmlessFields(schema: object, value: JsonObject): JsonObject {
  return actedMembers(rootOf(schema), value) ?? {};
}

export function listQuantities(
  schema: object,
  value: unknown,
  path: string,
): readonly Pick<SchemaValue, "path" | "value">[] {
  const below = (schemaValue: SchemaValue): readonly SchemaValue[] => {
    if (!leadsToQuantities(schemaValue.schema)) return [];
    return isQuantity(schemaValue.schema)
      ? [schemaValue]
      : listChildren(schemaValue).flatMap(below);
  };
  return below({ path, schema: rootOf(schema), value });
}

export interface SchemaField {
  /** With `[]` for lists and `{}` for maps. */
  readonly path: string;
  /**
   * As in KubeVirt's API document: `object`, `string`, `integer`, `boolean`, `string|integer|number`. For lists and
   * maps, the type of the entries.
   */
  readonly type: string;
  readonly required: boolean;
  readonly list: FieldList;
  readonly instead?: string;
  readonly description: string;
}

function readText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Returns the path suffix and schema of the entries of a list or map; otherwise of the field itself. */
function listEntries(node: JsonSchema): readonly [suffix: string, schema: JsonSchema] {
  const items = schemaAt(node, "items");
  if (items !== undefined) return ["[]", items];
  const values = schemaAt(node, "additionalProperties");
  return values === undefined ? ["", node] : ["{}", values];
}

function findType(schema: JsonSchema): string {
  return schema["x-kubernetes-int-or-string"] === true
    ? "string|integer|number"
    : readText(schema["type"]);
}

/** Lists every field below `path`. A field without a mark inherits `above`. */
export function schemaFields(
  schema: object,
  path: string,
  above: FieldList = "acted",
): readonly SchemaField[] {
  const node: JsonSchema = { ...schema };
  const required = node["required"];
  return Object.entries(schemaAt(node, "properties") ?? {}).flatMap(([key, child]) => {
    if (!isJsonObject(child)) return [];
    const list = findMark(child)?.list ?? above;
    const [suffix, entries] = listEntries(child);
    const instead = findValueMark(child)?.hint;
    const field = {
      path: `${path}.${key}${suffix}`,
      type: findType(entries),
      required: Array.isArray(required) && required.includes(key),
      list,
      ...(instead === undefined ? {} : { instead }),
      description: readText(child["description"]),
    };
    return [field, ...schemaFields(entries, field.path, list)];
  });
}
