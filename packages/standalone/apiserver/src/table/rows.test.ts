// SPDX-License-Identifier: Apache-2.0
// Tables of objects, and what paths of columns find.
import { expect, test } from "vitest";
import { EVENT } from "../kinds/cluster/event.ts";
import { LEASE } from "../kinds/cluster/node.ts";
import { objectOf } from "../testing/judge.ts";
import { printAge } from "./age.ts";
import { parsePath } from "./json-path.ts";
import { toPartial, toTable } from "./table.ts";

const lease = objectOf(LEASE, {
  metadata: { creationTimestamp: "1970-01-01T00:00:00Z" },
  spec: { holderIdentity: "h" },
});
const partial = {
  kind: "PartialObjectMetadata",
  apiVersion: "meta.k8s.io/v1",
  metadata: lease.metadata,
};

test.each([
  { include: "None", want: {} },
  { include: "Object", want: { object: lease } },
  { include: "Metadata", want: { object: partial } },
] as const)("a table with $include of its objects", ({ include, want }) => {
  const options = { kind: LEASE, include, nowMs: 5000, includesColumns: true };
  const column = { format: "", description: "", priority: 0, type: "string" };
  expect(toTable([lease], { resourceVersion: "7" }, options)).toEqual({
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    metadata: { resourceVersion: "7" },
    columnDefinitions: [
      {
        ...column,
        name: "Name",
        format: "name",
        description: "Name must be unique within a namespace.",
      },
      { ...column, name: "Holder" },
      { ...column, name: "Age", description: "Time since the object was created." },
    ],
    rows: [{ cells: ["o", "h", "5s"], ...want }],
  });
});

test("later events of a watch do not describe the columns", () => {
  const options = { kind: LEASE, include: "None", nowMs: 0, includesColumns: false } as const;
  expect(toTable([], {}, options)["columnDefinitions"]).toEqual([]);
});

test("a kind that places its name itself has it once, a custom one in front", () => {
  const options = { include: "None", nowMs: 0, includesColumns: true } as const;
  const namesOf = (kind: typeof EVENT) => {
    const definitions = toTable([], {}, { ...options, kind })["columnDefinitions"];
    return (definitions as { name: string }[]).map(({ name }) => name);
  };
  expect(namesOf(EVENT).filter((name) => name === "Name")).toHaveLength(1);
  expect(namesOf(EVENT).at(-1)).toBe("Name");
  const custom = {
    storageApiVersion: "v1",
    schemaRevision: 1,
    isTerminating: false,
    schema: {},
  };
  expect(namesOf({ ...EVENT, custom }).filter((name) => name === "Name")).toHaveLength(2);
});

test("reduces an object to its metadata", () => {
  expect(toPartial(lease)).toEqual(partial);
});

test.each([
  [599, "9m59s"],
  [600, "10m"],
  [10_799, "179m"],
  [10_800, "3h"],
  [28_799, "7h59m"],
  [28_800, "8h"],
  [172_799, "47h"],
  [172_800, "2d"],
  [691_199, "7d23h"],
  [691_200, "8d"],
  [2 * 31_536_000 - 1, "729d"],
  [2 * 31_536_000, "2y"],
  [2 * 31_536_000 + 86_400, "2y1d"],
  [8 * 31_536_000 + 86_400, "8y"],
])("an age of %i seconds is shown as %s", (seconds, want) => {
  expect(printAge("1970-01-01T00:00:00Z", seconds * 1000)).toBe(want);
});

test.each([undefined, 5, "noon"])("an age since %s is unknown", (since) => {
  expect(printAge(since, 0)).toBe("<unknown>");
});

const object = {
  a: { "b.c": 1, "d-e": 2, list: [{ n: 1, on: true }, { n: 2 }, "x"] },
  map: { p: { v: 1 }, q: { v: 2 } },
};

test.each([
  { path: "{.a.list[0].n}", want: [1] },
  { path: "$.a.list[-1]", want: ["x"] },
  { path: ".a.list[9]", want: [] },
  { path: ".a.list[*].n", want: [1, 2] },
  { path: ".map[*].v", want: [1, 2] },
  { path: ".a['b.c']", want: [1] },
  { path: String.raw`.a.b\.c`, want: [1] },
  { path: ".a.d-e", want: [2] },
  { path: ".a.list[?(@.on=='true')].n", want: [1] },
  { path: '.a.list.[?(@.n == "2")].n', want: [2] },
  { path: ".map[?(@.v=='1')]", want: [] },
  { path: ".a.list[?(@.n=='7')]", want: [] },
  { path: ".a.toString", want: [] },
  { path: ".a[", want: [] },
  { path: "", want: [object] },
])("$path finds $want", ({ path, want }) => {
  expect(parsePath(path)(object)).toEqual(want);
});
