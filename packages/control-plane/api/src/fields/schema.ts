// SPDX-License-Identifier: Apache-2.0
// Schema builders with TypeBox's names and types. Loading TypeBox itself would add 370 modules and 20 MB of memory.
import type { Type as TypeBox } from "typebox";

type Schema = Readonly<Record<string, unknown>>;

/** Schemas of optional properties. A WeakSet marks them, because a flag in the schema would appear in its JSON. */
const optionalSchemas = new WeakSet<Schema>();

/** Pattern for the keys of maps, as TypeBox writes it for `Type.Record`. */
const ANY_KEY = "^.*$";

function buildPlainSchema(type: string): (options?: Schema) => Schema {
  return (options = {}) => ({ type, ...options });
}

const builders = {
  Array: (items: Schema, options: Schema = {}): Schema => ({ type: "array", items, ...options }),
  Boolean: buildPlainSchema("boolean"),
  Integer: buildPlainSchema("integer"),
  Object: (properties: Readonly<Record<string, Schema>>, options: Schema = {}): Schema => {
    const required = Object.entries(properties).flatMap(([name, schema]) =>
      optionalSchemas.has(schema) ? [] : [name],
    );
    const requiredKeyword = required.length === 0 ? {} : { required };
    return { type: "object", ...requiredKeyword, properties, ...options };
  },
  Optional: (schema: Schema): Schema => {
    const copy = { ...schema };
    optionalSchemas.add(copy);
    return copy;
  },
  Record: (_key: Schema, value: Schema, options: Schema = {}): Schema => ({
    type: "object",
    patternProperties: { [ANY_KEY]: value },
    ...options,
  }),
  String: buildPlainSchema("string"),
  Unsafe: (schema: Schema): Schema => ({ ...schema }),
};

// The cast is safe, because a test compares the JSON of each builder with TypeBox's JSON.
export const Type = builders as unknown as Pick<typeof TypeBox, keyof typeof builders>;
