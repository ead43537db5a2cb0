// SPDX-License-Identifier: Apache-2.0
import { Type as TypeBox } from "typebox";
import { expect, test } from "vitest";
import { Type } from "./schema.ts";

type Texts = typeof Type;

const rows: readonly { readonly name: string; readonly write: (text: Texts) => unknown }[] = [
  { name: "text", write: (text) => text.String() },
  { name: "text with keywords", write: (text) => text.String({ maxLength: 3, pattern: "a" }) },
  { name: "an integer", write: (text) => text.Integer({ minimum: 1 }) },
  { name: "a boolean", write: (text) => text.Boolean() },
  { name: "a list", write: (text) => text.Array(text.String(), { maxItems: 2 }) },
  { name: "a map", write: (text) => text.Record(text.String(), text.Integer()) },
  {
    name: "a map with keywords",
    write: (text) => text.Record(text.String(), text.Boolean(), { description: "A." }),
  },
  { name: "any other type", write: (text) => text.Unsafe<"a">({ type: "string", enum: ["a"] }) },
  { name: "an object without properties", write: (text) => text.Object({}) },
  {
    name: "an object with optional properties",
    write: (text) => {
      const member = text.Object({ a: text.Optional(text.Array(text.String())) });
      const members = { c: text.Integer(), b: text.Optional(member), a: member };
      return text.Object(members, { additionalProperties: false, description: "B." });
    },
  },
  {
    name: "a property that is optional in one object and required in another",
    write: (words) => {
      const text = words.String();
      return words.Object({ a: words.Optional(text), b: text });
    },
  },
];

test.each(rows)("builds $name like TypeBox", ({ write }) => {
  expect(JSON.stringify(write(Type))).toBe(JSON.stringify(write(TypeBox)));
});
