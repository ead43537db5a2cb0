// SPDX-License-Identifier: Apache-2.0
// Is a value what its schema says? For what comes past the API server, which judges objects by the same schemas.
import { VmSpecSchema } from "../kinds/vm.ts";
import { isJsonObject, type JsonObject } from "../values/json.ts";

type JsonSchema = Readonly<Record<string, unknown>>;

const IS: Readonly<Record<string, (value: unknown) => boolean>> = {
  array: Array.isArray,
  boolean: (value) => typeof value === "boolean",
  integer: Number.isInteger,
  object: isJsonObject,
  string: (value) => typeof value === "string",
};

function isOfType(schema: JsonSchema, value: unknown): boolean {
  if (schema["x-kubernetes-int-or-string"] === true) {
    return typeof value === "string" || Number.isInteger(value);
  }
  const { enum: words } = schema;
  const is = IS[String(schema["type"])] ?? (() => true);
  return is(value) && (!Array.isArray(words) || words.includes(value));
}

function asSchemas(value: unknown): Readonly<Record<string, JsonSchema>> {
  // Only schemas stand there.
  return isJsonObject(value) ? (value as Readonly<Record<string, JsonSchema>>) : {};
}

function memberProblems(schema: JsonSchema, value: JsonObject, path: string): readonly string[] {
  const properties = asSchemas(schema["properties"]);
  const required = Array.isArray(schema["required"]) ? schema["required"].map(String) : [];
  const { additionalProperties: others } = asSchemas(schema);
  return [
    ...required.filter((name) => value[name] === undefined).map((name) => `${path}.${name}`),
    ...Object.entries(value).flatMap(([name, member]) => {
      const inner = Object.hasOwn(properties, name) ? properties[name] : others;
      return inner === undefined ? [] : problemsOf(inner, member, `${path}.${name}`);
    }),
  ];
}

function problemsOf(schema: JsonSchema, value: unknown, path: string): readonly string[] {
  if (value === undefined || (value === null && schema["nullable"] === true)) return [];
  if (!isOfType(schema, value)) return [path];
  if (Array.isArray(value)) {
    const { items = {} } = asSchemas(schema);
    return value.flatMap((item, index) => problemsOf(items, item, `${path}[${String(index)}]`));
  }
  return isJsonObject(value) ? memberProblems(schema, value, path) : [];
}

/** Fields of what ought to be a VM's specification that are not of the type that they must be, or are missing. */
export function misshapenFields(spec: unknown): readonly string[] {
  return problemsOf({ ...VmSpecSchema }, spec ?? null, "spec");
}
