// SPDX-License-Identifier: Apache-2.0
import { Type as TypeBox } from "typebox";
import { expect, test } from "vitest";
import { Type } from "./schema.ts";

type Words = typeof Type;

const rows: readonly { readonly name: string; readonly write: (words: Words) => unknown }[] = [
  { name: "text", write: (words) => words.String() },
  { name: "text with keywords", write: (words) => words.String({ maxLength: 3, pattern: "a" }) },
  { name: "a whole number", write: (words) => words.Integer({ minimum: 1 }) },
  { name: "yes or no", write: (words) => words.Boolean() },
  { name: "a list", write: (words) => words.Array(words.String(), { maxItems: 2 }) },
  { name: "a map", write: (words) => words.Record(words.String(), words.Integer()) },
  {
    name: "a map with keywords",
    write: (words) => words.Record(words.String(), words.Boolean(), { description: "A." }),
  },
  { name: "something else", write: (words) => words.Unsafe<"a">({ type: "string", enum: ["a"] }) },
  { name: "an object without members", write: (words) => words.Object({}) },
  {
    name: "an object, of which not everything must be there",
    write: (words) => {
      const member = words.Object({ a: words.Optional(words.Array(words.String())) });
      const members = { c: words.Integer(), b: words.Optional(member), a: member };
      return words.Object(members, { additionalProperties: false, description: "B." });
    },
  },
  {
    name: "a member that may be left out here and not there",
    write: (words) => {
      const text = words.String();
      return words.Object({ a: words.Optional(text), b: text });
    },
  },
];

test.each(rows)("$name is written as TypeBox writes it", ({ write }) => {
  expect(JSON.stringify(write(Type))).toBe(JSON.stringify(write(TypeBox)));
});
