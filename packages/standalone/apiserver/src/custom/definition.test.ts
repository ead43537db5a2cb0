// SPDX-License-Identifier: Apache-2.0
// Defaults, names and conditions of CustomResourceDefinitions.
import { expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { created, objectOf, withDefaults } from "../testing/judge.ts";
import { CLEANUP_FINALIZER, definitionKind, withNameConditions } from "./definition.ts";

const DEFINITION = definitionKind(() => []);
const names = { plural: "widgets", kind: "Widget" };
const version = {
  name: "v1",
  served: true,
  storage: true,
  schema: { openAPIV3Schema: { type: "object" } },
};
const spec = { group: "test.io", scope: "Namespaced", names, versions: [version] };
const metadata = { name: "widgets.test.io" };

test.each([
  {
    given: { names: { kind: "Widget" } },
    want: {
      names: { kind: "Widget", singular: "widget", listKind: "WidgetList" },
      conversion: { strategy: "None" },
    },
  },
  {
    given: { names: { kind: "A", singular: "b", listKind: "C" }, conversion: { strategy: "x" } },
    want: { names: { kind: "A", singular: "b", listKind: "C" }, conversion: { strategy: "x" } },
  },
  { given: { names: {} }, want: { names: {}, conversion: { strategy: "None" } } },
])("completes $given to $want", ({ given, want }) => {
  expect(withDefaults(DEFINITION, { spec: given })["spec"]).toEqual(want);
});

const T0 = "2024-01-01T00:00:00Z";
const T1 = "2024-02-01T00:00:00Z";
const ACCEPTED = {
  type: "NamesAccepted",
  status: "True",
  reason: "NoConflicts",
  message: "no conflicts found",
};
const ESTABLISHED = {
  type: "Established",
  status: "True",
  reason: "InitialNamesAccepted",
  message: "the initial names have been accepted",
};

function otherDefinition(acceptedNames: Fields, change: Fields = {}): KubeObject {
  const own = { group: "test.io", ...change };
  return objectOf(DEFINITION, {
    metadata: { name: "other.test.io" },
    spec: own,
    status: { acceptedNames },
  });
}

test("a new definition is established, has a cleanup finalizer and a storage version", () => {
  const given = { metadata: { ...metadata, creationTimestamp: T0 }, spec };
  const definition = created(DEFINITION, given);
  expect(definition.metadata.finalizers).toEqual([CLEANUP_FINALIZER]);
  expect(definition["status"]).toEqual({
    conditions: [ACCEPTED, ESTABLISHED].map((one) => ({ ...one, lastTransitionTime: T0 })),
    acceptedNames: { ...names, singular: "widget", listKind: "WidgetList" },
    storedVersions: ["v1"],
  });
});

test("preserves other finalizers without duplicates", () => {
  const finalizers = ["x.io/a", CLEANUP_FINALIZER];
  expect(
    created(DEFINITION, { metadata: { ...metadata, finalizers }, spec }).metadata.finalizers,
  ).toEqual(finalizers);
});

test.each([
  { change: { kind: "Widget" }, reason: "KindConflict", name: "Widget" },
  { change: { listKind: "WidgetList" }, reason: "ListKindConflict", name: "WidgetList" },
  { change: { kind: "WidgetList" }, reason: "ListKindConflict", name: "WidgetList" },
  { change: { plural: "widgets" }, reason: "PluralConflict", name: "widgets" },
  { change: { singular: "widget" }, reason: "SingularConflict", name: "widget" },
  { change: { shortNames: ["x", "w"] }, reason: "ShortNamesConflict", name: "w" },
  { change: { singular: "w" }, reason: "ShortNamesConflict", name: "w" },
])("rejects names that another definition has with $change", ({ change, reason, name }) => {
  const own = { spec: { ...spec, names: { ...names, shortNames: ["w"] } }, metadata };
  const others = definitionKind(() => [otherDefinition(change)]);
  expect(created(others, own)["status"]).toEqual({
    conditions: [
      {
        type: "NamesAccepted",
        status: "False",
        reason,
        message: `"${name}" is already in use`,
        lastTransitionTime: "",
      },
      {
        type: "Established",
        status: "False",
        reason: "NotAccepted",
        message: "not all names are accepted",
        lastTransitionTime: "",
      },
    ],
    acceptedNames: { plural: "", kind: "" },
    storedVersions: ["v1"],
  });
});

test.each([
  { name: "in another group", other: otherDefinition({ kind: "Widget" }, { group: "x.io" }) },
  {
    name: "of the same definition",
    other: objectOf(DEFINITION, { metadata, spec, status: { acceptedNames: names } }),
  },
  { name: "of kinds, for a resource", other: otherDefinition({ kind: "widgets" }) },
])("names $name do not conflict", ({ other }) => {
  const definition = created(
    definitionKind(() => [other]),
    { metadata, spec },
  );
  expect(definition["status"]).toMatchObject({ conditions: [ACCEPTED, ESTABLISHED] });
});

test("an established definition retains its state, other conditions and transition times", () => {
  const established = { ...ESTABLISHED, lastTransitionTime: T0 };
  const foreign = { type: "Terminating", status: "False" };
  const definition = objectOf(DEFINITION, {
    metadata,
    spec,
    status: {
      conditions: [foreign, { ...ACCEPTED, lastTransitionTime: T0 }, established],
      acceptedNames: { plural: "old" },
      storedVersions: ["v0"],
    },
  });
  expect(withNameConditions(definition, [otherDefinition({ kind: "Widget" })], T1)).toEqual({
    conditions: [
      {
        type: "NamesAccepted",
        status: "False",
        reason: "KindConflict",
        message: '"Widget" is already in use',
        lastTransitionTime: T1,
      },
      established,
      foreign,
    ],
    acceptedNames: { plural: "old" },
    storedVersions: ["v0"],
  });
});

test("a change records the versions in which objects may be stored", () => {
  const versions = [
    { ...version, storage: false },
    { ...version, name: "v2" },
  ];
  const definition = objectOf(DEFINITION, {
    metadata,
    spec: { ...spec, versions },
    status: { storedVersions: ["v1"] },
  });
  DEFINITION.strategy.prepareUpdate?.(definition, definition);
  DEFINITION.strategy.prepareUpdate?.(definition, definition);
  expect(definition["status"]).toMatchObject({ storedVersions: ["v1", "v2"] });
});
