// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { compareCrds, compareFields, printChange } from "./crd-changes.ts";
import { listFields, parseCrd, printCrd, readCrd } from "./crd-record.ts";

const text = { type: "string" };

function objectOf(properties: object, more: object = {}) {
  return { type: "object", properties, ...more };
}

interface Row {
  readonly name: string;
  readonly before: object;
  readonly after: object;
}

function changesOf({ before, after }: Row): readonly string[] {
  const [old, current] = [before, after].map((schema) => listFields({ ...schema }));
  return compareFields(old ?? new Map(), current ?? new Map()).map(
    ({ path, change }) => `${path}: ${change}`,
  );
}

describe("narrows the schema", () => {
  test.each<Row & { readonly want: readonly string[] }>([
    {
      name: "a removed field, without its members",
      before: objectOf({ a: objectOf({ b: text, c: { type: "array", items: text } }), d: text }),
      after: objectOf({ d: text }),
      want: ["/a: the field was removed"],
    },
    {
      name: "a removed entry schema and a removed value schema",
      before: objectOf({ a: { items: text }, b: { additionalProperties: text } }),
      after: objectOf({ a: {}, b: {} }),
      want: ["/a[]: the field was removed", "/b{}: the field was removed"],
    },
    {
      name: "a new required field",
      before: objectOf({ a: text }, { required: ["a"] }),
      after: objectOf({ a: text, b: text }, { required: ["a", "b"] }),
      want: ["/: b became required"],
    },
    {
      name: "another type",
      before: objectOf({ a: text, b: { type: "number" } }),
      after: objectOf({ a: { type: "integer" }, b: { type: "integer" } }),
      want: ["/a: type string became integer", "/b: type number became integer"],
    },
    {
      name: "a type where there was none",
      before: objectOf({ a: { "x-kubernetes-int-or-string": true } }),
      after: objectOf({ a: text }),
      want: ["/a: type unset became string", "/a: x-kubernetes-int-or-string was removed"],
    },
    {
      name: "a removed value of an enum, and a new enum",
      before: objectOf({ a: { enum: ["x", "y"] }, b: text }),
      after: objectOf({ a: { enum: ["x", "z"] }, b: { ...text, enum: ["x"] } }),
      want: ["/a: value y was removed", '/b: enum became ["x"]'],
    },
    {
      name: "smaller and new upper limits",
      before: objectOf({ a: { maximum: 5 }, b: text, c: { maxItems: 2 }, d: {} }),
      after: objectOf({
        a: { maximum: 4 },
        b: { ...text, maxLength: 3 },
        c: { maxItems: 1 },
        d: { maxProperties: 1 },
      }),
      want: [
        "/a: maximum 5 became 4",
        "/b: maxLength unset became 3",
        "/c: maxItems 2 became 1",
        "/d: maxProperties unset became 1",
      ],
    },
    {
      name: "larger and new lower limits",
      before: objectOf({ a: { minimum: 1 }, b: text, c: { minimum: 0 } }),
      after: objectOf({ a: { minimum: 2 }, b: { ...text, minLength: 1 }, c: { minimum: 0 } }),
      want: ["/a: minimum 1 became 2", "/b: minLength unset became 1"],
    },
    {
      name: "a minimum where there was none, also 0",
      before: objectOf({ a: { type: "integer" } }),
      after: objectOf({ a: { type: "integer", minimum: 0 } }),
      want: ["/a: minimum unset became 0"],
    },
    {
      name: "a new and another pattern, and a new format",
      before: objectOf({ a: text, b: { ...text, pattern: "^a" }, c: text }),
      after: objectOf({
        a: { ...text, pattern: "^a" },
        b: { ...text, pattern: "^b" },
        c: { ...text, format: "date" },
      }),
      want: [
        "/a: pattern unset became ^a",
        "/b: pattern ^a became ^b",
        "/c: format unset became date",
      ],
    },
    {
      name: "a field that may no longer be null or have unknown members",
      before: { nullable: true, "x-kubernetes-preserve-unknown-fields": true },
      after: {},
      want: ["/: nullable was removed", "/: x-kubernetes-preserve-unknown-fields was removed"],
    },
    {
      name: "a map that became closed",
      before: objectOf({ a: { additionalProperties: true } }),
      after: objectOf({ a: { additionalProperties: false } }),
      want: ["/a: additionalProperties became false"],
    },
    {
      name: "a new validation rule",
      before: objectOf({}, { "x-kubernetes-validations": [{ rule: "a" }] }),
      after: objectOf({}, { "x-kubernetes-validations": [{ rule: "a" }, { rule: "b" }] }),
      want: ['/: rule {"rule":"b"} was added'],
    },
    {
      name: "another default",
      before: objectOf({ a: { default: 1 }, b: { default: 1 } }),
      after: objectOf({ a: { default: 2 }, b: {} }),
      want: ["/a: default 1 became 2", "/b: default 1 became unset"],
    },
    {
      name: "another merge of lists",
      before: objectOf({ a: { "x-kubernetes-list-type": "map" }, b: { type: "array" } }),
      after: objectOf({
        a: { "x-kubernetes-list-type": "atomic" },
        b: { type: "array", "x-kubernetes-list-type": "set" },
      }),
      want: [
        "/a: x-kubernetes-list-type map became atomic",
        "/b: x-kubernetes-list-type atomic became set",
      ],
    },
    {
      name: "a keyword that this check does not know",
      before: objectOf({}),
      after: objectOf({}, { anyOf: [{ required: ["a"] }] }),
      want: ['/: anyOf unset became [{"required":["a"]}]'],
    },
  ])("$name", (row) => {
    expect(changesOf(row)).toEqual(row.want);
  });
});

describe("does not narrow the schema", () => {
  test.each<Row>([
    {
      name: "a new optional field, even with required members",
      before: objectOf({ a: text }),
      after: objectOf({ a: text, b: objectOf({ c: text }, { required: ["c"] }) }),
    },
    {
      name: "wider limits",
      before: objectOf({ a: { maximum: 5, minimum: 2, maxLength: 1, minItems: 1, pattern: "a" } }),
      after: objectOf({ a: { maximum: 6, minimum: 1 } }),
    },
    {
      name: "the minimum that every length has",
      before: objectOf({ a: text }),
      after: objectOf({ a: { ...text, minLength: 0 } }),
    },
    {
      name: "a new value of an enum, no enum, no required field",
      before: objectOf({ a: { enum: ["x"] }, b: { enum: ["x"] } }, { required: ["a"] }),
      after: objectOf({ a: { enum: ["y", "x"] }, b: {} }),
    },
    {
      name: "a wider type",
      before: objectOf({ a: { type: "integer" }, b: text }),
      after: objectOf({ a: { type: "number" }, b: { "x-kubernetes-int-or-string": true } }),
    },
    {
      name: "another description and a new default",
      before: objectOf({ a: { ...text, description: "old" } }),
      after: objectOf({ a: { ...text, description: "new", default: "x" } }),
    },
    {
      name: "a field whose parent accepts unlisted members",
      before: objectOf({ a: objectOf({ b: text }) }),
      after: objectOf({ a: { type: "object", "x-kubernetes-preserve-unknown-fields": true } }),
    },
    {
      name: "stated defaults of merging",
      before: objectOf({ a: { type: "array" } }),
      after: objectOf({ a: { type: "array", "x-kubernetes-list-type": "atomic" } }),
    },
  ])("$name", (row) => {
    expect(changesOf(row)).toEqual([]);
  });
});

function definitionOf(spec: object, ...versions: readonly object[]) {
  const names = { plural: "things", kind: "Thing", shortNames: ["th"] };
  return {
    metadata: { name: "things.example.org" },
    spec: { group: "example.org", scope: "Namespaced", names, ...spec, versions },
  };
}

function versionOf(name: string, more: object = {}) {
  const schema = { openAPIV3Schema: objectOf({ a: text, b: { additionalProperties: text } }) };
  return { name, served: true, storage: false, subresources: { status: {} }, schema, ...more };
}

describe("changes of a CRD", () => {
  const stored = versionOf("v1", { storage: true });
  const before = readCrd(definitionOf({}, stored, versionOf("v1beta1")));

  test.each([
    {
      name: "a removed version",
      after: definitionOf({}, stored),
      want: ["things.example.org v1beta1: the version was removed"],
    },
    {
      name: "a version that is no longer served, or has lost its status",
      after: definitionOf(
        {},
        { ...stored, subresources: {} },
        versionOf("v1beta1", { served: false }),
      ),
      want: [
        "things.example.org v1: subresource status changed",
        "things.example.org v1beta1: the version is no longer served",
      ],
    },
    {
      name: "another storage version",
      after: definitionOf({}, versionOf("v1"), versionOf("v1beta1", { storage: true })),
      want: [
        "things.example.org v1: the storage version changed",
        "things.example.org v1beta1: the storage version changed",
      ],
    },
    {
      name: "another scope",
      after: definitionOf({ scope: "Cluster" }, stored, versionOf("v1beta1")),
      want: ["things.example.org: scope Namespaced became Cluster"],
    },
    {
      name: "a narrower field of one version",
      after: definitionOf(
        {},
        stored,
        versionOf("v1beta1", { schema: { openAPIV3Schema: objectOf({ a: text }) } }),
      ),
      want: ["things.example.org v1beta1 /b: the field was removed"],
    },
    {
      name: "a new version",
      after: definitionOf({}, stored, versionOf("v1beta1"), versionOf("v2")),
      want: [],
    },
  ])("$name", ({ after, want }) => {
    expect(compareCrds(before, readCrd(after)).map(printChange)).toEqual(want);
  });

  test("a removed CRD", () => {
    expect(compareCrds(before, undefined).map(printChange)).toEqual([
      "things.example.org: the CRD was removed",
    ]);
  });

  test("a record is parsed as it was printed, and equal versions share their fields", () => {
    const printed = printCrd(before);
    expect(parseCrd(printed)).toEqual(before);
    expect(printed.split("\n")).toContain("fields v1 v1beta1");
    expect(printed).toContain("/b{} ");
  });
});
