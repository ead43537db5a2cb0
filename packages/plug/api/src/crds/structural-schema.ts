// SPDX-License-Identifier: Apache-2.0
// How a TypeBox schema is written as a structural schema. Source: Kubernetes apiextensions.k8s.io/v1 JSONSchemaProps.
import { isJsonObject } from "../values/json.ts";

type JsonSchema = Readonly<Record<string, unknown>>;

/** A schema that a CustomResourceDefinition may hold. */
export type StructuralSchema = JsonSchema;

/** Keywords that are taken over as they are, in the order in which they are printed. */
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

/** The only pattern of keys that a structural schema can say: any key. Source: TypeBox `Type.Record(Type.String(), ...)`. */
const ANY_KEY = "^.*$";

function propertiesOf(schema: JsonSchema): StructuralSchema {
  const properties = schema["properties"];
  // `properties: {}` says nothing and is left out.
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

/** Converts a schema; what TypeBox keeps for itself is dropped, `patternProperties` of any key become `additionalProperties`. */
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

/** What is below a keyword, without words. */
const BELOW: Readonly<Record<string, (value: unknown) => unknown>> = {
  properties: eachOf,
  items: bareOf,
  additionalProperties: bareOf,
};

/** The schema with the same meaning and no words: what a version needs that nobody explains. */
export function withoutDescriptions(schema: StructuralSchema): StructuralSchema {
  const kept = Object.entries(schema).filter(([keyword]) => keyword !== "description");
  return Object.fromEntries(
    kept.map(([keyword, value]) => [keyword, BELOW[keyword]?.(value) ?? value]),
  );
}
