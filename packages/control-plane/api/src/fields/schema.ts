// SPDX-License-Identifier: Apache-2.0
// Schema builders with the names and types of TypeBox. Patchbay needs eight of them; loading TypeBox itself costs
// each program 370 modules, 20 MB and a fifth of its start time.
import type { Type as TypeBox } from "typebox";

type Schema = Readonly<Record<string, unknown>>;

/** Schemas of optional properties. It is a WeakSet, because the JSON must not contain the flag. */
const optionalSchemas = new WeakSet<Schema>();

/** Key pattern of maps, equal to TypeBox's output for Record. */
const ANY_KEY = "^.*$";

function plain(type: string): (options?: Schema) => Schema {
  return (options = {}) => ({ type, ...options });
}

const builders = {
  Array: (items: Schema, options: Schema = {}): Schema => ({ type: "array", items, ...options }),
  Boolean: plain("boolean"),
  Integer: plain("integer"),
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
  String: plain("string"),
  Unsafe: (schema: Schema): Schema => ({ ...schema }),
};

/** TypeBox's builders that schemas use, with the same JSON as result. */
// A test compares each builder with TypeBox, whose types describe the values of a schema.
export const Type = builders as unknown as Pick<typeof TypeBox, keyof typeof builders>;
