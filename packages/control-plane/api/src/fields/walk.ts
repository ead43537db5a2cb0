// SPDX-License-Identifier: Apache-2.0
// Traversal of a value and its schema, to find unsupported fields and quantities.
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

export interface UnsupportedField {
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

/** Lists the property schemas. The result is cached, because every validation uses the same schemas. */
const listMembers = memoize((schema: JsonSchema) =>
  Object.entries(schemaAt(schema, "properties") ?? {}).flatMap(([key, child]) =>
    isJsonObject(child) ? [[key, child] as const] : [],
  ),
);

function toJsonSchema(schema: object): JsonSchema {
  return isJsonObject(schema) ? schema : {};
}

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

/** Creates a predicate that is true if a schema or one of its descendants matches. Traversals use it to skip subtrees without a match. */
function createSubtreeCheck(
  matches: (schema: JsonSchema) => boolean,
): (schema: JsonSchema) => boolean {
  const hasMatch = memoize(
    (schema: JsonSchema): boolean => matches(schema) || schemasBelow(schema).some(hasMatch),
  );
  return hasMatch;
}

function schemasBelow(schema: JsonSchema): readonly JsonSchema[] {
  const entries = [schemaAt(schema, "items"), schemaAt(schema, "additionalProperties")];
  return [
    ...entries.filter((child) => child !== undefined),
    ...listMembers(schema).map(([, child]) => child),
  ];
}

const containsMarks = createSubtreeCheck(
  (schema) => findMark(schema) !== undefined || findValueMark(schema) !== undefined,
);
const containsQuantities = createSubtreeCheck(isQuantity);

/**
 * Returns the mark of an unsupported field or value; undefined if Patchbay supports both. Does not check whether the value is
 * the accepted default of an unsupported field: callers must call `isDefault` of the mark.
 */
function findEffectiveMark({ schema, value }: SchemaValue): FieldMark | undefined {
  const mark = findMark(schema);
  if (mark !== undefined) return mark;
  const values = findValueMark(schema);
  const isSupported = values?.isSupported(value) ?? true;
  return values === undefined || isSupported ? undefined : { level: "unbuilt", hint: values.hint };
}

function listUnsupportedBelow(schemaValue: SchemaValue): readonly UnsupportedField[] {
  const { path, schema, value } = schemaValue;
  if (isUnset(value) || !containsMarks(schema)) return [];
  const mark = findEffectiveMark(schemaValue);
  if (mark === undefined) return listChildren(schemaValue).flatMap(listUnsupportedBelow);
  return mark.isDefault?.(value) === true ? [] : [{ path, mark }];
}

export function listUnsupportedFields(
  schema: object,
  value: unknown,
  path: string,
): readonly UnsupportedField[] {
  return listUnsupportedBelow({ path, schema: toJsonSchema(schema), value });
}

function removeHarmlessMembers(schema: JsonSchema, value: JsonObject): JsonObject | undefined {
  const [values, members] = ["additionalProperties", "properties"].map((keyword) =>
    schemaAt(schema, keyword),
  );
  const entries = Object.entries(value).flatMap(([key, child]) => {
    const childSchema = values ?? schemaAt(members ?? {}, key) ?? {};
    const remainingValue = removeHarmless({ path: key, schema: childSchema, value: child });
    return remainingValue === undefined ? [] : [[key, remainingValue] as const];
  });
  const isEmptied = entries.length === 0 && Object.keys(value).length > 0;
  return isEmptied ? undefined : Object.fromEntries(entries);
}

function removeHarmless(schemaValue: SchemaValue): unknown {
  const { schema, value } = schemaValue;
  if (isUnset(value) || !containsMarks(schema)) return value;
  const mark = findEffectiveMark(schemaValue);
  if (mark !== undefined) {
    const isDropped = mark.level === "harmless" && mark.isDefault?.(value) !== true;
    return isDropped ? undefined : value;
  }
  if (Array.isArray(value))
    return listChildren(schemaValue).map((entry) => removeHarmless(entry) ?? {});
  return isJsonObject(value) ? removeHarmlessMembers(schema, value) : value;
}

/**
 * Copies `value` without fields of support level `harmless`, which Patchbay stores but does not implement. Retains such a
 * field if it has an accepted default value. Also removes objects that become empty. List entries that become empty remain
 * as `{}`, so that the other entries keep their indexes.
 */
export function withoutHarmlessFields(schema: object, value: JsonObject): JsonObject {
  return removeHarmlessMembers(toJsonSchema(schema), value) ?? {};
}

export function listQuantities(
  schema: object,
  value: unknown,
  path: string,
): readonly Pick<SchemaValue, "path" | "value">[] {
  const listBelow = (schemaValue: SchemaValue): readonly SchemaValue[] => {
    if (!containsQuantities(schemaValue.schema)) return [];
    return isQuantity(schemaValue.schema)
      ? [schemaValue]
      : listChildren(schemaValue).flatMap(listBelow);
  };
  return listBelow({ path, schema: toJsonSchema(schema), value });
}

export interface SchemaField {
  /** Path, with `[]` after the name of a list and `{}` after the name of a map. */
  readonly path: string;
  /** Type as in KubeVirt's API document, for example `string` or `string|integer|number`. For lists and maps, the type of the entries. */
  readonly type: string;
  readonly required: boolean;
  readonly level: SupportLevel;
  readonly hint?: string;
  readonly description: string;
}

function readText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Returns the path suffix and schema of a list's or map's entries. For another schema, returns an empty suffix and the schema itself. */
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

/** Lists all fields below `path`. A field without a mark inherits the support level of its parent. */
export function listSchemaFields(
  schema: object,
  path: string,
  parentLevel: SupportLevel = "acted",
): readonly SchemaField[] {
  const node: JsonSchema = { ...schema };
  const required = node["required"];
  return Object.entries(schemaAt(node, "properties") ?? {}).flatMap(([key, child]) => {
    if (!isJsonObject(child)) return [];
    const level = findMark(child)?.level ?? parentLevel;
    const [suffix, entries] = listEntries(child);
    const hint = findValueMark(child)?.hint;
    const field = {
      path: `${path}.${key}${suffix}`,
      type: findType(entries),
      required: Array.isArray(required) && required.includes(key),
      level,
      ...(hint === undefined ? {} : { hint }),
      description: readText(child["description"]),
    };
    return [field, ...listSchemaFields(entries, field.path, level)];
  });
}
