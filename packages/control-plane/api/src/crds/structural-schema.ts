// SPDX-License-Identifier: Apache-2.0
// Conversion of TypeBox schemas to structural schemas. Source: Kubernetes apiextensions.k8s.io/v1 JSONSchemaProps.
import { isJsonObject } from "../values/json.ts";

type JsonSchema = Readonly<Record<string, unknown>>;

export type StructuralSchema = JsonSchema;

const COPIED_KEYWORDS = [
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
  "maxProperties",
  "required",
  "x-kubernetes-int-or-string",
  "x-kubernetes-preserve-unknown-fields",
  "x-kubernetes-list-type",
  "x-kubernetes-list-map-keys",
  "x-kubernetes-map-type",
] as const;

/** Key pattern that TypeBox writes for `Type.Record(Type.String(), ...)`. */
const ANY_KEY = "^.*$";

function listProperties(schema: JsonSchema): StructuralSchema {
  const properties = schema["properties"];
  if (!isJsonObject(properties) || Object.keys(properties).length === 0) return {};
  const entries = Object.entries(properties).map(
    ([name, value]) => [name, isJsonObject(value) ? toStructuralSchema(value) : {}] as const,
  );
  return { properties: Object.fromEntries(entries) };
}

function findMapValues(schema: JsonSchema): StructuralSchema {
  const patternProperties = schema["patternProperties"];
  const values = isJsonObject(patternProperties) ? patternProperties[ANY_KEY] : schema["additionalProperties"];
  return isJsonObject(values) ? { additionalProperties: toStructuralSchema(values) } : {};
}

/** Removes TypeBox's own keywords and converts `patternProperties` to `additionalProperties`. */
export function toStructuralSchema(source: object): StructuralSchema {
  const schema: JsonSchema = { ...source };
  const copiedKeywords = COPIED_KEYWORDS.filter((keyword) => schema[keyword] !== undefined).map(
    (keyword) => [keyword, schema[keyword]] as const,
  );
  const items = schema["items"];
  return {
    ...Object.fromEntries(copiedKeywords),
    ...listProperties(schema),
    ...findMapValues(schema),
    ...(isJsonObject(items) ? { items: toStructuralSchema(items) } : {}),
  };
}

function stripEach(schemas: unknown): unknown {
  const entries = Object.entries(isJsonObject(schemas) ? schemas : {});
  return Object.fromEntries(entries.map(([name, schema]) => [name, stripSchema(schema)]));
}

function stripSchema(schema: unknown): unknown {
  return isJsonObject(schema) ? withoutDescriptions(schema) : schema;
}

const STRIP_BY_KEYWORD: Readonly<Record<string, (value: unknown) => unknown>> = {
  properties: stripEach,
  items: stripSchema,
  additionalProperties: stripSchema,
};

export function withoutDescriptions(schema: StructuralSchema): StructuralSchema {
  const keywords = Object.entries(schema).filter(([keyword]) => keyword !== "description");
  return Object.fromEntries(
    keywords.map(([keyword, value]) => [keyword, STRIP_BY_KEYWORD[keyword]?.(value) ?? value]),
  );
}
