// SPDX-License-Identifier: Apache-2.0
// What does a structural schema drop, fill in and refuse?
import { expect, test } from "vitest";
import { applyDefaults, pruneObject } from "./prune-and-default.ts";
import { schemaCauses } from "./structural.ts";
import { makeValidator } from "./validator.ts";

const schema = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      required: ["name"],
      properties: {
        name: { type: "string", minLength: 2, maxLength: 5, pattern: "^[a-z]+$" },
        replicas: { type: "integer", minimum: 1, maximum: 9, default: 3 },
        mode: { type: "string", enum: ["A", "B"] },
        port: {
          "x-kubernetes-int-or-string": true,
          anyOf: [{ type: "integer" }, { type: "string" }],
        },
        nullable: { type: "string", nullable: true },
        plain: { type: "string", default: "d" },
        free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
        nested: { type: "object", default: {}, properties: { x: { type: "integer", default: 7 } } },
        set: { type: "array", items: { type: "string" }, "x-kubernetes-list-type": "set" },
        map: {
          type: "array",
          items: { type: "object", properties: { k: { type: "string" } } },
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["k"],
        },
        all: {
          type: "object",
          properties: { size: { type: "integer" } },
          allOf: [{ properties: { size: { maximum: 5 } } }, { required: ["size"] }],
        },
        one: { type: "object", oneOf: [{ required: ["a"] }, { required: ["b"] }] },
        big: { type: "integer", format: "int64" },
        embedded: {
          type: "object",
          "x-kubernetes-embedded-resource": true,
          "x-kubernetes-preserve-unknown-fields": true,
        },
      },
    },
  },
};

test.each([
  { name: "drops unknown fields", given: { name: "ab", x: 1 }, want: { name: "ab" } },
  {
    name: "retains fields that the schema preserves",
    given: { free: { x: { y: null } } },
    want: { free: { x: { y: null } } },
  },
  {
    name: "drops unknown fields of items",
    given: { map: [{ k: "a", x: 1 }] },
    want: { map: [{ k: "a" }] },
  },
])("pruning: $name", ({ given, want }) => {
  const object = { apiVersion: "v1", kind: "K", metadata: { labels: {} }, spec: given, top: 1 };
  pruneObject(object, schema);
  expect(object).toEqual({ apiVersion: "v1", kind: "K", metadata: { labels: {} }, spec: want });
});

test.each([
  { name: "missing values", given: {}, want: { replicas: 3, plain: "d", nested: { x: 7 } } },
  {
    name: "null in a field that is not nullable",
    given: { plain: null, mode: null },
    want: { replicas: 3, plain: "d", nested: { x: 7 } },
  },
  {
    name: "no null in a nullable field",
    given: { nullable: null, replicas: 1 },
    want: { nullable: null, replicas: 1, plain: "d", nested: { x: 7 } },
  },
])("defaults replace $name", ({ given, want }) => {
  const object = { spec: given };
  applyDefaults(object, schema);
  expect(object.spec).toEqual(want);
});

test.each([
  { given: {}, field: "spec.name", reason: "FieldValueRequired" },
  { given: { name: 5 }, field: "spec.name", reason: "FieldValueTypeInvalid" },
  { given: { name: "a" }, field: "spec.name", reason: "FieldValueInvalid" },
  { given: { name: "abcdef" }, field: "spec.name", reason: "FieldValueTooLong" },
  { given: { name: "AB" }, field: "spec.name", reason: "FieldValueInvalid" },
  { given: { name: "ab", replicas: 1.5 }, field: "spec.replicas", reason: "FieldValueTypeInvalid" },
  { given: { name: "ab", replicas: 10 }, field: "spec.replicas", reason: "FieldValueInvalid" },
  { given: { name: "ab", mode: "C" }, field: "spec.mode", reason: "FieldValueNotSupported" },
  { given: { name: "ab", port: true }, field: "spec.port", reason: "FieldValueTypeInvalid" },
  { given: { name: "ab", set: ["a", "a"] }, field: "spec.set[1]", reason: "FieldValueDuplicate" },
  {
    given: { name: "ab", map: [{ k: "a" }, { k: "a" }] },
    field: "spec.map[1]",
    reason: "FieldValueDuplicate",
  },
  { given: { name: "ab", all: { size: 6 } }, field: "spec.all.size", reason: "FieldValueInvalid" },
  { given: { name: "ab", all: {} }, field: "spec.all.size", reason: "FieldValueRequired" },
  { given: { name: "ab", one: { a: 1, b: 1 } }, field: "<nil>", reason: "FieldValueInvalid" },
  { given: { name: "ab", set: ["a", 1] }, field: "spec.set[1]", reason: "FieldValueTypeInvalid" },
  {
    given: { name: "ab", embedded: { metadata: {} } },
    field: "spec.embedded.apiVersion",
    reason: "FieldValueRequired",
  },
])("rejects $given at $field", ({ given, field, reason }) => {
  expect(makeValidator(schema)({ spec: given })).toContainEqual(
    expect.objectContaining({ field, reason }),
  );
});

test.each([
  { name: "ab", port: 80, one: { a: 1 } },
  { name: "ab", port: "80%", nullable: null },
  { name: "ab", big: 9_007_199_254_740_993n },
])("accepts %o", (spec) => {
  expect(makeValidator(schema)({ spec })).toEqual([]);
});

test.each([
  {
    name: "a field without a type",
    given: { properties: { a: {} } },
    field: "s.properties[a].type",
  },
  {
    name: "a list without items",
    given: { properties: { a: { type: "array" } } },
    field: "s.properties[a].items",
  },
  {
    name: "properties beside additionalProperties",
    given: { properties: {}, additionalProperties: { type: "string" } },
    field: "s.additionalProperties",
  },
])("a schema with $name is not structural", ({ given, field }) => {
  const causes = schemaCauses({ type: "object", ...given }, "s");
  expect(causes.map((cause) => cause.field)).toEqual([field]);
});

test.each([
  [{ minItems: 2 }, "array", ["a"], "spec.v in body should have at least 2 items"],
  [{ minProperties: 1 }, "object", {}, "spec.v in body should have at least 1 properties"],
  [{ maxProperties: 1 }, "object", { a: 1, b: 1 }, "Too many: 2: must have at most 1 items"],
  [{ multipleOf: 5 }, "integer", 7, "spec.v in body should be a multiple of 5"],
  [{ minimum: 5, exclusiveMinimum: true }, "integer", 5, "spec.v in body should be greater than 5"],
  [{ maximum: 5, exclusiveMaximum: true }, "integer", 5, "spec.v in body should be less than 5"],
  [{ format: "int32" }, "integer", 3_000_000_000, "spec.v in body must be of type int32"],
  [{ format: "ipv4" }, "string", "1.2", 'spec.v in body must be of type ipv4: "1.2"'],
])("rejects %j of type %s: %j", (...[limits, type, given, want]) => {
  const items = type === "array" ? { items: { type: "string" } } : {};
  const v = { type, ...items, ...limits, "x-kubernetes-preserve-unknown-fields": true };
  const spec = { type: "object", properties: { v } };
  const causes = makeValidator({ type: "object", properties: { spec } })({ spec: { v: given } });
  expect(causes.map(({ field, message }) => `${field ?? ""}: ${message}`)).toEqual([
    expect.stringMatching(new RegExp(`^spec\\.v: .*${want.replaceAll(".", "\\.")}`)),
  ]);
});
