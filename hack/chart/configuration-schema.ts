// SPDX-License-Identifier: Apache-2.0
// JSON schema of the KubeVirt object's configuration, from its CRD.
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import { parse } from "yaml";

/** A JSON schema of draft 7, which all versions of Helm accept. */
export type Schema = Readonly<Record<string, unknown>>;

const ANY_FIELDS = "x-kubernetes-preserve-unknown-fields";
const INTEGER_OR_TEXT = "x-kubernetes-int-or-string";

function readObject(from: JsonObject | undefined, name: string): JsonObject {
  const value = from?.[name];
  if (!isJsonObject(value)) throw new Error(`the CRD of KubeVirt objects lacks ${name}`);
  return value;
}

/** Converts a structural schema of a CRD. Objects refuse unknown fields unless the API server preserves them. */
function convert(schema: JsonObject): Schema {
  const own = Object.entries(schema).filter(([name]) => !name.startsWith("x-kubernetes-"));
  const { properties, items, additionalProperties } = schema;
  const isClosed = properties !== undefined && schema[ANY_FIELDS] !== true;
  return {
    ...Object.fromEntries(own),
    ...(schema[INTEGER_OR_TEXT] === true && { type: ["integer", "string"] }),
    ...(isJsonObject(properties) && { properties: convertAll(properties) }),
    ...(isJsonObject(items) && { items: convert(items) }),
    ...(isClosed && { additionalProperties: false }),
    ...(isJsonObject(additionalProperties) && {
      additionalProperties: convert(additionalProperties),
    }),
  };
}

function convertAll(properties: JsonObject): Schema {
  const entries = Object.entries(properties).map(([name, schema]) => [
    name,
    isJsonObject(schema) ? convert(schema) : schema,
  ]);
  return Object.fromEntries(entries) as Schema;
}

/** Reads the schema of `spec.configuration` in the CRD's stored version. */
export function readConfigurationSchema(definition: string): Schema {
  // The cast is safe, because the code below checks each level.
  const { spec } = parse(definition) as { readonly spec: { readonly versions: JsonObject[] } };
  const stored = spec.versions.find(({ storage }) => storage === true);
  const root = readObject(readObject(stored, "schema"), "openAPIV3Schema");
  const inSpec = readObject(readObject(root, "properties"), "spec");
  return convert(readObject(readObject(inSpec, "properties"), "configuration"));
}
