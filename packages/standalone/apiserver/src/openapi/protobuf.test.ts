// SPDX-License-Identifier: Apache-2.0
// The v2 document as protobuf, byte by byte.
import { expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import { toProtobuf } from "./protobuf.ts";

/** A field with bytes, shorter than 128. */
function field(number: number, ...parts: readonly (string | readonly number[])[]): number[] {
  const content = parts.flatMap((part) =>
    typeof part === "string" ? [...Buffer.from(part)] : part,
  );
  const tag = number * 8 + 2;
  return [
    ...(tag < 128 ? [tag] : [(tag % 128) + 128, Math.floor(tag / 128)]),
    content.length,
    ...content,
  ];
}

const NO_PATHS = field(8);
const NO_INFO = field(2);

/** Definitions of a document with one schema. */
function schemaBytes(...parts: readonly (readonly number[])[]): readonly number[] {
  return [...NO_INFO, ...NO_PATHS, ...field(9, field(1, field(1, "T"), field(2, ...parts)))];
}

const STRING = field(22, field(1, "string"));
const yaml = (text: string) => field(2, text);

test.each<{ name: string; schema: Fields; want: readonly number[] }>([
  { name: "nothing", schema: {}, want: schemaBytes() },
  { name: "a reference", schema: { $ref: "#/d" }, want: schemaBytes(field(1, "#/d")) },
  {
    name: "texts",
    schema: { type: "string", format: "f", description: "d", pattern: "p" },
    want: schemaBytes(field(2, "f"), field(4, "d"), field(13, "p"), STRING),
  },
  {
    name: "empty and missing texts",
    schema: { format: "", description: 5 },
    want: schemaBytes(),
  },
  {
    name: "required fields and values",
    schema: { required: ["a", "b"], enum: ["x", 1] },
    want: schemaBytes(field(19, "a"), field(19, "b"), field(20, yaml('"x"')), field(20, yaml("1"))),
  },
  {
    name: "nested schemas",
    schema: {
      additionalProperties: { type: "string" },
      items: { type: "string" },
      properties: { p: { type: "string" } },
    },
    want: schemaBytes(
      field(21, field(1, STRING)),
      field(23, field(1, STRING)),
      field(25, field(1, field(1, "p"), field(2, STRING))),
    ),
  },
  {
    name: "additional properties",
    schema: { additionalProperties: true, items: true, properties: [] },
    want: schemaBytes(),
  },
  {
    name: "extensions",
    schema: { "x-a": { b: 1 }, other: 2 },
    want: schemaBytes(field(31, field(1, "x-a"), field(2, yaml('{"b":1}')))),
  },
])("a schema with $name", ({ schema, want }) => {
  expect([...toProtobuf({ definitions: { T: schema } })]).toEqual(want);
});

const OK = field(9, field(1, field(1, "200"), field(2, field(1, field(1, "OK")))));

test("info and operations", () => {
  const document = {
    swagger: "2.0",
    info: { title: "t", version: "v" },
    paths: {
      "/a": {
        get: {},
        put: { "x-k": 1 },
        post: { parameters: [{ name: "n", type: "string" }] },
        delete: {},
        patch: {},
      },
    },
  };
  const parameter = field(3, field(2, "query"), field(4, "n"), field(6, "string"));
  const operations = [
    ...field(2, OK),
    ...field(3, OK, field(13, field(1, "x-k"), field(2, yaml("1")))),
    ...field(4, field(8, field(1, field(2, parameter))), OK),
    ...field(5, OK),
    ...field(8, OK),
  ];
  // The lengths of the path and of what holds it have two bytes each.
  const long = (number: number, content: readonly number[]) => [
    number * 8 + 2,
    (content.length % 128) + 128,
    Math.floor(content.length / 128),
    ...content,
  ];
  expect([...toProtobuf(document)]).toEqual([
    ...field(1, "2.0"),
    ...field(2, field(1, "t"), field(2, "v")),
    ...long(8, long(2, [...field(1, "/a"), ...long(2, operations)])),
    ...field(9),
  ]);
});

test.each([
  { length: 127, want: [127] },
  { length: 128, want: [128, 1] },
  { length: 300, want: [172, 2] },
  { length: 16_384, want: [128, 128, 1] },
])("a text of $length bytes begins with its length", ({ length, want }) => {
  const bytes = [...toProtobuf({ swagger: "x".repeat(length) })];
  expect(bytes.slice(0, want.length + 2)).toEqual([10, ...want, 120]);
});
