// SPDX-License-Identifier: Apache-2.0
// Which fields of an object Patchbay does not act on, and which fields a schema has.
import { isJsonObject, type JsonObject } from "../values/json.ts";
import { remembered } from "../values/memoize.ts";
import {
  findMark,
  findValueMark,
  isNothing,
  isQuantity,
  type FieldList,
  type FieldMark,
  type JsonSchema,
} from "./notation.ts";

/** A field of an object that is not acted on. */
export interface UnactedField {
  /** With indexes, for example `spec.domain.devices.interfaces[0].tag`. */
  readonly path: string;
  readonly mark: FieldMark;
}

function schemaAt(schema: JsonSchema, key: string): JsonSchema | undefined {
  const child = schema[key];
  return isJsonObject(child) ? child : undefined;
}

/** A value with the schema that it is of. */
interface Visited {
  /** With indexes. */
  readonly path: string;
  readonly schema: JsonSchema;
  readonly value: unknown;
}

/** The schemas of members: the same few are asked about for every object. */
const membersOf = remembered((schema: JsonSchema) =>
  Object.entries(schemaAt(schema, "properties") ?? {}).flatMap(([key, child]) =>
    isJsonObject(child) ? [[key, child] as const] : [],
  ),
);

function rootOf(schema: object): JsonSchema {
  return isJsonObject(schema) ? schema : {};
}

/** What stands directly below a value, in the order of the schema: members, entries of a list, values of a map. */
function childrenOf({ path, schema, value }: Visited): readonly Visited[] {
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
  const children: Visited[] = [];
  for (const [key, child] of membersOf(schema)) {
    if (value[key] !== undefined)
      children.push({ path: at(key), schema: child, value: value[key] });
  }
  return children;
}

/** Whether a schema, or one below it, is such a one: what stands where none is need not be looked at. */
function reaching(isSuch: (schema: JsonSchema) => boolean): (schema: JsonSchema) => boolean {
  const reaches = remembered(
    (schema: JsonSchema): boolean => isSuch(schema) || schemasBelow(schema).some(reaches),
  );
  return reaches;
}

function schemasBelow(schema: JsonSchema): readonly JsonSchema[] {
  const entries = [schemaAt(schema, "items"), schemaAt(schema, "additionalProperties")];
  return [
    ...entries.filter((child) => child !== undefined),
    ...membersOf(schema).map(([, child]) => child),
  ];
}

const leadsToMarks = reaching(
  (schema) => findMark(schema) !== undefined || findValueMark(schema) !== undefined,
);
const leadsToQuantities = reaching(isQuantity);

/** The mark of a value that is not acted on, or not as it is. */
function markOf({ schema, value }: Visited): FieldMark | undefined {
  const mark = findMark(schema);
  if (mark !== undefined) return mark;
  const values = findValueMark(schema);
  const isBuilt = values?.isBuilt(value) ?? true;
  return values === undefined || isBuilt ? undefined : { list: "unbuilt", hint: values.hint };
}

function unactedBelow(visited: Visited): readonly UnactedField[] {
  const { path, schema, value } = visited;
  if (isNothing(value) || !leadsToMarks(schema)) return [];
  const mark = markOf(visited);
  if (mark === undefined) return childrenOf(visited).flatMap(unactedBelow);
  return mark.unless?.(value) === true ? [] : [{ path, mark }];
}

/**
 * The fields of `value` that are not acted on, in the order of the schema. What stands below such a field is not looked
 * at: the topmost one is what a person has to take out.
 */
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

function actedBelow(visited: Visited): unknown {
  const { schema, value } = visited;
  if (isNothing(value) || !leadsToMarks(schema)) return value;
  const mark = markOf(visited);
  if (mark !== undefined) {
    const isDropped = mark.list === "harmless" && mark.unless?.(value) !== true;
    return isDropped ? undefined : value;
  }
  if (Array.isArray(value)) return childrenOf(visited).map((entry) => actedBelow(entry) ?? {});
  return isJsonObject(value) ? actedMembers(schema, value) : value;
}

/** A copy of `value` without its harmless fields, and without objects that had nothing else. */
export function withoutHarmlessFields(schema: object, value: JsonObject): JsonObject {
  return actedMembers(rootOf(schema), value) ?? {};
}

/** Amounts that a value has, wherever they are, with their paths. */
export function quantitiesOf(
  schema: object,
  value: unknown,
  path: string,
): readonly Pick<Visited, "path" | "value">[] {
  const below = (visited: Visited): readonly Visited[] => {
    if (!leadsToQuantities(visited.schema)) return [];
    return isQuantity(visited.schema) ? [visited] : childrenOf(visited).flatMap(below);
  };
  return below({ path, schema: rootOf(schema), value });
}

/** A field of a schema, as the reference of fields lists it. */
export interface SchemaField {
  /** `[]` after a list, `{}` after a map. */
  readonly path: string;
  /** As KubeVirt's document has it: `object`, `string`, `integer`, `boolean`, `string|integer|number`; of the entries of a list or map. */
  readonly type: string;
  readonly required: boolean;
  readonly list: FieldList;
  /** Where not every value of a field that is acted on is built: what to do instead of the others. */
  readonly instead?: string;
  readonly description: string;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The schema of the entries of a list or map, with what is written after its path; else of the field itself. */
function entriesOf(node: JsonSchema): readonly [suffix: string, schema: JsonSchema] {
  const items = schemaAt(node, "items");
  if (items !== undefined) return ["[]", items];
  const values = schemaAt(node, "additionalProperties");
  return values === undefined ? ["", node] : ["{}", values];
}

function typeOf(schema: JsonSchema): string {
  return schema["x-kubernetes-int-or-string"] === true
    ? "string|integer|number"
    : textOf(schema["type"]);
}

/** Every field of a schema below `path`, each with the list that it is in: its own, or that of the field above it. */
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
    const [suffix, entries] = entriesOf(child);
    const instead = findValueMark(child)?.hint;
    const field = {
      path: `${path}.${key}${suffix}`,
      type: typeOf(entries),
      required: Array.isArray(required) && required.includes(key),
      list,
      ...(instead === undefined ? {} : { instead }),
      description: textOf(child["description"]),
    };
    return [field, ...schemaFields(entries, field.path, list)];
  });
}
