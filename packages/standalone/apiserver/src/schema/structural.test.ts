// SPDX-License-Identifier: Apache-2.0
// Which schemas are structural, how they become JSON Schema, and what else they say of objects.
import { expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import { printCauses } from "../testing/judge.ts";
import { applyDefaults, unknownFields } from "./prune-and-default.ts";
import { listCauses, makeValidator, toJsonSchema } from "./validator.ts";
import { schemaCauses } from "./structural.ts";

const PRESERVE = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING = "x-kubernetes-int-or-string";
const LIST_TYPE = "x-kubernetes-list-type";
const LIST_KEYS = "x-kubernetes-list-map-keys";
const EMBEDDED = "x-kubernetes-embedded-resource";
const items = { type: "string" };
const NO_TYPE = "Required value: must not be empty for specified object fields";

test.each<{ name: string; given: Fields; want: readonly string[] }>([
  { name: "anything", given: { [PRESERVE]: true }, want: [] },
  { name: "int-or-string", given: { [INT_OR_STRING]: true }, want: [] },
  { name: "an empty type", given: { type: "" }, want: [`s.type: ${NO_TYPE}`] },
  { name: "a type that is not a string", given: { type: ["a"] }, want: [`s.type: ${NO_TYPE}`] },
  {
    name: "unsupported keywords",
    given: { type: "object", $ref: "x", id: "y", uniqueItems: true, [PRESERVE]: false },
    want: [
      "s.$ref: Forbidden: $ref is not supported",
      "s.id: Forbidden: id is not supported",
      "s.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
      `s.${PRESERVE}: Invalid value: false: must be true or undefined`,
    ],
  },
  {
    name: "uniqueItems false",
    given: { type: "array", items, uniqueItems: false },
    want: [],
  },
  { name: "list type set", given: { type: "array", items, [LIST_TYPE]: "set" }, want: [] },
  { name: "list type null", given: { type: "object", [LIST_TYPE]: null }, want: [] },
  {
    name: "an unknown kind of list",
    given: { type: "array", items, [LIST_TYPE]: "heap" },
    want: [`s.${LIST_TYPE}: Unsupported value: "heap": supported values: "atomic", "map", "set"`],
  },
  {
    name: "a list type on an object",
    given: { type: "object", [LIST_TYPE]: "set" },
    want: [`s.type: Invalid value: "object": must be array if ${LIST_TYPE} is specified`],
  },
  {
    name: "list type map without keys",
    given: { type: "array", items, [LIST_TYPE]: "map" },
    want: [`s.${LIST_KEYS}: Required value: must not be empty if ${LIST_TYPE} is map`],
  },
  {
    name: "list type map with keys",
    given: { type: "array", items, [LIST_TYPE]: "map", [LIST_KEYS]: ["k"] },
    want: [],
  },
  {
    name: "nested schemas",
    given: { type: "array", items: { type: "object", additionalProperties: {} } },
    want: [`s.items.additionalProperties.type: ${NO_TYPE}`],
  },
  {
    name: "metadata without a type",
    given: { type: "object", properties: { metadata: {}, spec: {} } },
    want: [`s.properties[spec].type: ${NO_TYPE}`],
  },
  {
    name: "metadata with properties",
    given: { type: "object", properties: { metadata: { properties: {} } } },
    want: [`s.properties[metadata].type: ${NO_TYPE}`],
  },
  {
    name: "additionalProperties false",
    given: { type: "object", properties: {}, additionalProperties: false },
    want: [],
  },
  {
    name: "both properties and additionalProperties",
    given: { type: "object", properties: {}, additionalProperties: true },
    want: [
      "s.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
    ],
  },
])("a schema with $name", ({ given, want }) => {
  expect(printCauses(schemaCauses(given, "s"))).toEqual(want);
});

test.each<{ name: string; given: Fields; want: Fields }>([
  { name: "nothing", given: {}, want: {} },
  {
    name: "common keywords",
    given: { type: "string", maxLength: 5, pattern: "a", format: "date", default: "b", other: 1 },
    want: { type: "string", maxLength: 5, pattern: "a", format: "date" },
  },
  { name: "null", given: { type: "string", nullable: true }, want: { type: ["string", "null"] } },
  {
    name: "a nullable enum",
    given: { type: "string", nullable: true, enum: ["a"] },
    want: { type: ["string", "null"], enum: ["a", null] },
  },
  { name: "values", given: { type: "string", enum: ["a"] }, want: { type: "string", enum: ["a"] } },
  {
    name: "int-or-string",
    given: { [INT_OR_STRING]: true, anyOf: [{ type: "integer" }, { type: "string" }] },
    want: { type: ["integer", "string"] },
  },
  {
    name: "nullable int-or-string",
    given: { [INT_OR_STRING]: true, nullable: true, allOf: [{ pattern: "a" }] },
    want: { type: ["integer", "string", "null"], allOf: [{ pattern: "a" }] },
  },
  {
    name: "exclusive limits",
    given: { minimum: 1, exclusiveMinimum: true, maximum: 5, exclusiveMaximum: true },
    want: { minimum: 1, exclusiveMinimum: 1, maximum: 5, exclusiveMaximum: 5 },
  },
  {
    name: "limits that are not",
    given: { minimum: 1, exclusiveMinimum: false, exclusiveMaximum: false },
    want: { minimum: 1 },
  },
  {
    name: "nested schemas",
    given: {
      properties: { a: { type: "string", default: "x" } },
      additionalProperties: { nullable: true, type: "integer" },
      items: { type: "string", default: "x" },
      not: { type: "string", default: "x" },
      anyOf: [{ type: "string", default: "x" }],
      oneOf: [],
    },
    want: {
      properties: { a: { type: "string" } },
      additionalProperties: { type: ["integer", "null"] },
      items: { type: "string" },
      not: { type: "string" },
      anyOf: [{ type: "string" }],
      oneOf: [],
    },
  },
  {
    name: "an embedded resource",
    given: { type: "object", [EMBEDDED]: true, required: ["kind", "spec"] },
    want: { type: "object", required: ["kind", "spec", "apiVersion", "metadata"] },
  },
  { name: "additionalProperties true", given: { additionalProperties: true }, want: {} },
])("JSON Schema of $name", ({ given, want }) => {
  expect(toJsonSchema(given)).toEqual(want);
});

const set = { type: "array", [LIST_TYPE]: "set", items };
const map = {
  type: "array",
  [LIST_TYPE]: "map",
  [LIST_KEYS]: ["port", "protocol"],
  items: { properties: { protocol: { default: "TCP" }, inner: set } },
};

test.each<{ name: string; schema: Fields; value: unknown; want: readonly string[] }>([
  { name: "a list without a list type", schema: { items }, value: ["a", "a"], want: [] },
  {
    name: "an atomic list",
    schema: { ...set, [LIST_TYPE]: "atomic" },
    value: ["a", "a"],
    want: [],
  },
  {
    name: "a set",
    schema: set,
    value: ["a", "b", "a", "a"],
    want: ['[2]: Duplicate value: "a"', '[3]: Duplicate value: "a"'],
  },
  {
    name: "a map whose key has a default",
    schema: map,
    value: [{ port: 1 }, { port: 1, protocol: "UDP" }, { port: 1, protocol: "TCP" }],
    want: ['[2]: Duplicate value: {"port":1,"protocol":"TCP"}'],
  },
  {
    name: "nested sets",
    schema: { properties: { a: { properties: { l: map } } } },
    value: { a: { l: [{ port: 1, inner: ["x", "x"] }] }, other: ["y", "y"] },
    want: ['a.l[0].inner[1]: Duplicate value: "x"'],
  },
  { name: "a value that is not a list", schema: set, value: "a", want: [] },
])("rejects duplicates in lists: $name", ({ schema, value, want }) => {
  expect(printCauses(listCauses(value, schema, ""))).toEqual(want);
});

test.each<{ name: string; schema: Fields; given: Fields; want: readonly string[] }>([
  { name: "without a schema", schema: {}, given: { kind: "K", metadata: {}, a: 1 }, want: ["a"] },
  {
    name: "with preserved unknown fields",
    schema: { [PRESERVE]: true },
    given: { a: 1 },
    want: [],
  },
  {
    name: "with additionalProperties true",
    schema: { additionalProperties: true },
    given: { a: 1 },
    want: [],
  },
  {
    name: "with a schema for additionalProperties",
    schema: { additionalProperties: { properties: { b: {} } } },
    given: { a: { b: 1, c: 1 } },
    want: ["a.c"],
  },
  {
    name: "below known fields of a schema that preserves unknown fields",
    schema: { [PRESERVE]: true, properties: { a: { type: "object" } } },
    given: { a: { b: 1 }, c: 1 },
    want: ["a.b"],
  },
  {
    name: "in lists",
    schema: { properties: { l: { items: { items: {} } }, m: {} } },
    given: { l: [[{ a: 1 }], "x"], m: [{ a: 1 }] },
    want: ["l[0][0].a"],
  },
  {
    name: "in embedded resources",
    schema: { properties: { e: { [EMBEDDED]: true }, f: {} } },
    given: { e: { kind: "K", metadata: {}, a: 1 }, f: { kind: "K" } },
    want: ["e.a", "f.kind"],
  },
])("pruning of unknown fields $name", ({ schema, given, want }) => {
  expect(unknownFields(given, schema).map(({ path }) => path)).toEqual(want);
});

test.each<{ name: string; schema: Fields; given: unknown; want: unknown }>([
  {
    name: "list items",
    schema: { items: { properties: { a: { default: 1 } } } },
    given: [{}, { a: 2 }, "x"],
    want: [{ a: 1 }, { a: 2 }, "x"],
  },
  { name: "no list without an item schema", schema: {}, given: [{ a: null }], want: [{ a: null }] },
  {
    name: "additional properties",
    schema: { additionalProperties: { properties: { a: { default: 1 }, b: {} } } },
    given: { x: { b: null } },
    want: { x: { a: 1 } },
  },
  {
    name: "no unknown field",
    schema: { properties: { a: "x" } },
    given: { b: null },
    want: { b: null },
  },
  {
    name: "no string",
    schema: { properties: { a: { default: 1 } } },
    given: "x",
    want: "x",
  },
])("defaults fill in $name", ({ schema, given, want }) => {
  const value = structuredClone(given);
  applyDefaults(value, schema);
  expect(value).toEqual(want);
});

test("creates a new default value for each object", () => {
  const schema = { properties: { a: { default: { b: 1 } } } };
  const [one, other] = [{}, {}] as Fields[];
  applyDefaults(one, schema);
  applyDefaults(other, schema);
  expect(one?.["a"]).not.toBe(other?.["a"]);
});

const validated = makeValidator({
  type: "object",
  required: ["spec"],
  properties: {
    metadata: { type: "string" },
    spec: {
      type: "object",
      required: ["a"],
      properties: {
        a: { type: "array", maxItems: 1, items: { type: "integer", maximum: 5, minimum: 1 } },
        "b/c~d": { type: "boolean" },
        any: { anyOf: [{ required: ["x"] }, { required: ["y"] }] },
        not: { not: { required: ["x"] } },
        one: { oneOf: [{ required: ["x"] }, { required: ["y"] }] },
        nullable: { type: "integer", nullable: true },
      },
    },
  },
});
const inBody = (field: string, type: string, given: string) =>
  `${field}: Invalid value: "${given}": ${field} in body must be of type ${type}: "${given}"`;

test.each<{ given: Fields; want: readonly string[] }>([
  { given: { metadata: {}, spec: { a: [1] } }, want: [] },
  { given: {}, want: ["spec: Required value"] },
  { given: { spec: {} }, want: ["spec.a: Required value"] },
  { given: { spec: { a: {} } }, want: [inBody("spec.a", "array", "object")] },
  {
    given: { spec: { a: [true] } },
    want: [inBody("spec.a[0]", "integer", "boolean")],
  },
  {
    given: { spec: { a: [1, 1] } },
    want: ["spec.a: Too many: 2: must have at most 1 items"],
  },
  {
    given: { spec: { a: [6] } },
    want: ["spec.a[0]: Invalid value: 6: spec.a[0] in body should be less than or equal to 5"],
  },
  {
    given: { spec: { a: [0n] } },
    want: ["spec.a[0]: Invalid value: 0: spec.a[0] in body should be greater than or equal to 1"],
  },
  {
    given: { spec: { a: [], "b/c~d": 1 } },
    want: [inBody("spec.b/c~d", "boolean", "number")],
  },
  {
    given: { spec: { a: [], nullable: "x" } },
    want: [inBody("spec.nullable", "integer", "string")],
  },
  {
    given: { spec: { a: [], any: {} } },
    want: ['<nil>: Invalid value: "": "spec.any" must validate at least one schema (anyOf)'],
  },
  {
    given: { spec: { a: [], one: {} } },
    want: [
      '<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid alternatives',
    ],
  },
  {
    given: { spec: { a: [], not: { x: 1 } } },
    want: ['spec.not: Invalid value: {"x":1}: spec.not in body must NOT be valid'],
  },
])("$given violates a schema only by $want", ({ given, want }) => {
  expect(printCauses(validated(given))).toEqual(want);
});

test("rejects an invalid schema", () => {
  expect(() => makeValidator({ type: "object", properties: { a: { type: "x" } } })({})).toThrow(
    /schema is invalid/,
  );
});
