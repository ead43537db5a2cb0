// SPDX-License-Identifier: Apache-2.0
// How is a schema written down? With TypeBox's words and types, of which only eight are needed: loading the library itself
// takes each program 370 modules, 20 MB and a fifth of its start.
import type { Type as TypeBox } from "typebox";

type Schema = Readonly<Record<string, unknown>>;

/** What may be left out of an object; told to nobody else. */
const optional = new WeakSet<Schema>();

/** Any key. TypeBox writes it so. */
const ANY_KEY = "^.*$";

function plain(type: string): (options?: Schema) => Schema {
  return (options = {}) => ({ type, ...options });
}

const words = {
  Array: (items: Schema, options: Schema = {}): Schema => ({ type: "array", items, ...options }),
  Boolean: plain("boolean"),
  Integer: plain("integer"),
  Object: (properties: Readonly<Record<string, Schema>>, options: Schema = {}): Schema => {
    const required = Object.entries(properties).flatMap(([name, schema]) =>
      optional.has(schema) ? [] : [name],
    );
    const isRequired = required.length === 0 ? {} : { required };
    return { type: "object", ...isRequired, properties, ...options };
  },
  Optional: (schema: Schema): Schema => {
    const copy = { ...schema };
    optional.add(copy);
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

/** The words of TypeBox that schemas are written with; what they make is the same JSON. */
// A test compares each with the library, whose types say what a value of the schema is.
export const Type = words as unknown as Pick<typeof TypeBox, keyof typeof words>;
