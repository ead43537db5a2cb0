// SPDX-License-Identifier: Apache-2.0
// Kinds that a CustomResourceDefinition defines.
import { expect, test } from "vitest";
import { ALL_VERBS, type Kind } from "../kinds/kind.ts";
import type { Fields } from "../objects/json.ts";
import { objectOf, printCauses, withDefaults } from "../testing/judge.ts";
import { widgetDefinition } from "../testing/objects.ts";
import { toColumns, toKinds } from "./custom-kind.ts";

const REVISION = 7;
const schema = {
  type: "object",
  properties: {
    spec: { type: "object", properties: { size: { type: "integer", default: 3 } } },
    metadata: { type: "object", default: { name: "x" } },
  },
};
const version = { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema } };

/** The first kind of a definition with this version. */
function kindOf(change: Fields = {}, definition = {}): Kind {
  const versions = [{ ...version, ...change }];
  const [kind] = toKinds({ ...widgetDefinition({ versions }), ...definition }, REVISION);
  if (kind === undefined) {
    throw new Error("no kind is served");
  }
  return kind;
}

test("a kind has the accepted names and all verbs", () => {
  const acceptedNames = {
    plural: "widgets",
    singular: "widget",
    kind: "Widget",
    listKind: "WidgetList",
    shortNames: ["w", 5],
    categories: ["all"],
  };
  const conditions = [{ type: "Established", status: "True" }];
  const { strategy, custom, ...kind } = kindOf({}, { status: { acceptedNames, conditions } });
  expect(kind).toEqual({
    group: "test.io",
    version: "v1",
    resource: "widgets",
    kind: "Widget",
    listKind: "WidgetList",
    singular: "widget",
    shortNames: ["w"],
    categories: ["all"],
    namespaced: true,
    verbs: ALL_VERBS,
    subresources: [],
  });
  expect(custom).toEqual({
    storageApiVersion: "test.io/v1",
    schemaRevision: REVISION,
    isTerminating: false,
    schema,
  });
  expect(strategy).toMatchObject({
    hasStatus: false,
    statusWritesMetadata: false,
    hasGeneration: true,
    allowsUnconditionalUpdate: false,
    allowsCreateOnUpdate: false,
    allowsStrategicMerge: false,
  });
});

test("a cluster-scoped kind has no namespaces", () => {
  const definition = widgetDefinition({ scope: "Cluster" });
  expect(toKinds(definition, 1).map(({ namespaced }) => namespaced)).toEqual([false, false]);
});

test("each served version has a kind with the same storage version", () => {
  const versions = [
    { ...version, name: "v1", storage: false },
    { ...version, name: "v2" },
    { ...version, name: "v3", storage: false, served: false },
  ];
  const kinds = toKinds(widgetDefinition({ versions }), 1);
  expect(kinds.map((kind) => [kind.version, kind.custom?.storageApiVersion])).toEqual([
    ["v1", "test.io/v2"],
    ["v2", "test.io/v2"],
  ]);
});

test.each([
  { name: "no condition", conditions: [] },
  { name: "another condition", conditions: [{ type: "NamesAccepted", status: "True" }] },
  {
    name: "condition Established set to False",
    conditions: [{ type: "Established", status: "False" }],
  },
])("serves nothing for a definition with $name", ({ conditions }) => {
  expect(toKinds({ ...widgetDefinition(), status: { conditions } }, 1)).toEqual([]);
});

test("rejects new objects while the definition is being deleted", () => {
  const metadata = { name: "widgets.test.io", deletionTimestamp: "2024-01-01T00:00:00Z" };
  const kind = kindOf({}, { metadata });
  expect(kind.verbs).toEqual(ALL_VERBS.filter((verb) => verb !== "create"));
  expect(kind.custom?.isTerminating).toBe(true);
});

test.each([
  { change: { deprecated: true }, want: "test.io/v1 Widget is deprecated" },
  { change: { deprecated: true, deprecationWarning: "use v2" }, want: "use v2" },
  { change: { deprecationWarning: "use v2" }, want: undefined },
])("a version with $change warns: $want", ({ change, want }) => {
  expect(kindOf(change).custom?.deprecationWarning).toBe(want);
});

const verbs = ["get", "patch", "update"];

test("serves status and scale as subresources", () => {
  const scale = {
    specReplicasPath: ".spec.n",
    statusReplicasPath: ".status.m.n",
    labelSelectorPath: ".status.s",
  };
  const kind = kindOf({ subresources: { status: {}, scale } });
  expect(kind.strategy.hasStatus).toBe(true);
  expect(kind.subresources).toEqual([
    { name: "status", verbs },
    { name: "scale", verbs, kind: "Scale", group: "autoscaling", version: "v1" },
  ]);
  expect(kind.scale).toMatchObject({
    specReplicasPath: ["spec", "n"],
    statusReplicasPath: ["status", "m", "n"],
  });
  expect(kind.scale?.selector(objectOf(kind, { status: { s: "a=b" } }))).toBe("a=b");
});

test("a scale without a selector selects no pods", () => {
  const scale = { specReplicasPath: ".spec.n", statusReplicasPath: ".status.n" };
  const kind = kindOf({ subresources: { scale } });
  expect(kind.scale?.selector(objectOf(kind, { status: { s: "a=b" } }))).toBe("");
});

test("selectable fields of a version can be used in selectors", () => {
  const kind = kindOf({ selectableFields: [{ jsonPath: ".spec.size" }, { jsonPath: ".kind" }] });
  const object = objectOf(kind, { spec: { size: 5 } });
  const found = Object.entries(kind.strategy.selectableFields).map(([key, of]) => [
    key,
    of(object),
  ]);
  expect(found).toEqual([
    ["spec.size", "5"],
    ["kind", "Widget"],
  ]);
});

test("prunes and defaults objects, without changing their metadata", () => {
  const kind = kindOf();
  const given = { spec: { other: 1 }, more: 2 };
  const object = objectOf(kind, given);
  expect(kind.strategy.unknownFields?.(object)).toEqual(["spec.other", "more"]);
  expect(withDefaults(kind, given)).toEqual(objectOf(kind, { spec: { size: 3 } }));
  const causes = kind.strategy.validate?.(objectOf(kind, { spec: { size: "x" } })) ?? [];
  expect(printCauses(causes)).toEqual([
    'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
  ]);
});

const OBJECT = {
  apiVersion: "x.io/v1",
  kind: "X",
  metadata: { name: "x", creationTimestamp: "2024-01-01T00:00:00Z" },
  spec: { n: 1.5, t: "a", b: true, l: ["a", "b"], o: { k: 1 }, big: 2n ** 60n },
};
const NOW_MS = 1_704_067_260_000;

test.each([
  ["string", ".spec.t", "a"],
  ["string", ".spec.n", "1.5"],
  ["string", ".spec.o", '{"k":1}'],
  ["string", ".spec.none", null],
  ["integer", ".spec.n", 1],
  ["integer", ".spec.big", 2n ** 60n],
  ["integer", ".spec.t", null],
  ["number", ".spec.n", 1.5],
  ["number", ".spec.b", null],
  ["boolean", ".spec.b", true],
  ["boolean", ".spec.t", null],
  ["date", ".metadata.creationTimestamp", "60s"],
  ["date", ".spec.n", null],
  ["date", ".spec.t", "<invalid>"],
])("a column of type %s at %s shows %s", (type, jsonPath, want) => {
  const [column] = toColumns([{ name: "C", type, jsonPath }]);
  expect(column?.cell(OBJECT, NOW_MS)).toBe(want);
});

test("shows only the age without columns", () => {
  expect(toColumns(undefined).map(({ name }) => name)).toEqual(["Age"]);
});
