// SPDX-License-Identifier: Apache-2.0
// Walks a value together with its schema, to find unsupported fields and quantities.
import { isJsonObject, type JsonObject } from "../values/json.ts";
import { memoize } from "../values/memoize.ts";
import {
  findMark,
  findValueMark,
  isUnset,
  isQuantity,
  type SupportLevel,
  type FieldMark,
  type JsonSchema,
} from "./notation.ts";

export interface UnactedField {
  /** Path with indexes, for example `spec.domain.devices.interfaces[0].tag`. */
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

/** Lists the property schemas. Cached, because every object is walked with the same few schemas. */
const listMembers = memoize((schema: JsonSchema) =>
  Object.entries(schemaAt(schema, "properties") ?? {}).flatMap(([key, child]) =>
    isJsonObject(child) ? [[key, child] as const] : [],
  ),
);

function toJsonSchema(schema: object): JsonSchema {
  return isJsonObject(schema) ? schema : {};
}

/** Lists members, list entries or map values, in the order of the schema. */
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
  const childPath = (key: string): string => (path === "" ? key : `${path}.${key}`);
  const values = schemaAt(schema, "additionalProperties");
  if (values !== undefined) {
    return Object.keys(value).map((key) => ({
      path: childPath(key),
      schema: values,
      value: value[key],
    }));
  }
  const children: SchemaValue[] = [];
  for (const [key, child] of listMembers(schema)) {
    if (value[key] !== undefined)
      children.push({ path: childPath(key), schema: child, value: value[key] });
  }
  return children;
}

/**
 * Returns a predicate that checks whether the schema or a schema below it matches. Walks skip subtrees that cannot
 * match.
 */
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

/** Returns a mark if Patchbay does not act on the field or on its present value. */
function findEffectiveMark({ schema, value }: SchemaValue): FieldMark | undefined {
  const mark = findMark(schema);
  if (mark !== undefined) return mark;
  const values = findValueMark(schema);
  const isSupported = values?.isSupported(value) ?? true;
  return values === undefined || isSupported ? undefined : { level: "unbuilt", hint: values.hint };
}

function unactedBelow(schemaValue: SchemaValue): readonly UnactedField[] {
  const { path, schema, value } = schemaValue;
  if (isUnset(value) || !leadsToMarks(schema)) return [];
  const mark = findEffectiveMark(schemaValue);
  if (mark === undefined) return listChildren(schemaValue).flatMap(unactedBelow);
  return mark.isDefault?.(value) === true ? [] : [{ path, mark }];
}

/** Lists unsupported fields in the order of the schema. Below a field that is listed, nothing else is. */
export function unactedFields(
  schema: object,
  value: unknown,
  path: string,
): readonly UnactedField[] {
  return unactedBelow({ path, schema: toJsonSchema(schema), value });
}

function actedMembers(schema: JsonSchema, value: JsonObject): JsonObject | undefined {
  const [values, members] = ["additionalProperties", "properties"].map((keyword) =>
    schemaAt(schema, keyword),
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
  const mark = findEffectiveMark(schemaValue);
  if (mark !== undefined) {
    const isDropped = mark.level === "harmless" && mark.isDefault?.(value) !== true;
    return isDropped ? undefined : value;
  }
  if (Array.isArray(value))
    return listChildren(schemaValue).map((entry) => actedBelow(entry) ?? {});
  return isJsonObject(value) ? actedMembers(schema, value) : value;
}

/** Copies `value` without its harmless fields. Objects that become empty are dropped. */
export function withoutHarmlessFields(schema: object, value: JsonObject): JsonObject {
  return actedMembers(toJsonSchema(schema), value) ?? {};
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
  return below({ path, schema: toJsonSchema(schema), value });
}

export interface SchemaField {
  /** Path with `[]` for lists and `{}` for maps. */
  readonly path: string;
  /**
   * Type as in KubeVirt's API document: `object`, `string`, `integer`, `boolean` or `string|integer|number`. For lists
   * and maps, the type of the entries.
   */
  readonly type: string;
  readonly required: boolean;
  readonly level: SupportLevel;
  readonly instead?: string;
  readonly description: string;
}

function readText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Returns the path suffix and schema of a list's or map's entries, or "" and the schema itself for other fields. */
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

/** Lists every field below `path`. A field without a mark has the level `above`. */
export function schemaFields(
  schema: object,
  path: string,
  above: SupportLevel = "acted",
): readonly SchemaField[] {
  const node: JsonSchema = { ...schema };
  const required = node["required"];
  return Object.entries(schemaAt(node, "properties") ?? {}).flatMap(([key, child]) => {
    if (!isJsonObject(child)) return [];
    const level = findMark(child)?.level ?? above;
    const [suffix, entries] = listEntries(child);
    const instead = findValueMark(child)?.hint;
    const field = {
      path: `${path}.${key}${suffix}`,
      type: findType(entries),
      required: Array.isArray(required) && required.includes(key),
      level,
      ...(instead === undefined ? {} : { instead }),
      description: readText(child["description"]),
    };
    return [field, ...schemaFields(entries, field.path, level)];
  });
}
