// SPDX-License-Identifier: Apache-2.0
// Converts TypeBox schemas to structural schemas. Source: Kubernetes apiextensions.k8s.io/v1 JSONSchemaProps.
import { isJsonObject } from "../values/json.ts";

type JsonSchema = Readonly<Record<string, unknown>>;

export type StructuralSchema = JsonSchema;

/** Keywords that are copied unchanged, in print order. */
const PLAIN_KEYWORDS = [
  "description",
  "type",
  "format",
  "nullable",
  "default",
  "enum",
  "pattern",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "minItems",
  "maxItems",
  "required",
  "x-kubernetes-int-or-string",
  "x-kubernetes-preserve-unknown-fields",
  "x-kubernetes-list-type",
  "x-kubernetes-list-map-keys",
  "x-kubernetes-map-type",
] as const;

/** The only key pattern that a structural schema supports. Source: TypeBox `Type.Record(Type.String(), ...)`. */
const ANY_KEY = "^.*$";

function propertiesOf(schema: JsonSchema): StructuralSchema {
  const properties = schema["properties"];
  if (!isJsonObject(properties) || Object.keys(properties).length === 0) return {};
  const entries = Object.entries(properties).map(
    ([name, value]) => [name, isJsonObject(value) ? structuralSchemaOf(value) : {}] as const,
  );
  return { properties: Object.fromEntries(entries) };
}

function mapValuesOf(schema: JsonSchema): StructuralSchema {
  const patterns = schema["patternProperties"];
  const values = isJsonObject(patterns) ? patterns[ANY_KEY] : schema["additionalProperties"];
  return isJsonObject(values) ? { additionalProperties: structuralSchemaOf(values) } : {};
}

/** Drops TypeBox's own keywords and converts `patternProperties` to `additionalProperties`. */
export function structuralSchemaOf(source: object): StructuralSchema {
  const schema: JsonSchema = { ...source };
  const plain = PLAIN_KEYWORDS.filter((keyword) => schema[keyword] !== undefined).map(
    (keyword) => [keyword, schema[keyword]] as const,
  );
  const items = schema["items"];
  return {
    ...Object.fromEntries(plain),
    ...propertiesOf(schema),
    ...mapValuesOf(schema),
    ...(isJsonObject(items) ? { items: structuralSchemaOf(items) } : {}),
  };
}

function eachOf(schemas: unknown): unknown {
  const entries = Object.entries(isJsonObject(schemas) ? schemas : {});
  return Object.fromEntries(entries.map(([name, schema]) => [name, bareOf(schema)]));
}

function bareOf(schema: unknown): unknown {
  return isJsonObject(schema) ? withoutDescriptions(schema) : schema;
}

const BELOW: Readonly<Record<string, (value: unknown) => unknown>> = {
  properties: eachOf,
  items: bareOf,
  additionalProperties: bareOf,
};

/** Removes all descriptions, for deprecated versions. */
export function withoutDescriptions(schema: StructuralSchema): StructuralSchema {
  const kept = Object.entries(schema).filter(([keyword]) => keyword !== "description");
  return Object.fromEntries(
    kept.map(([keyword, value]) => [keyword, BELOW[keyword]?.(value) ?? value]),
  );
}
