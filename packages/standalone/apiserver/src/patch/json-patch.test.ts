// SPDX-License-Identifier: Apache-2.0
// JSON patches: which are read, what bounds them, and merges that are refused.
import { expect, test } from "vitest";
import { typeShape } from "../shapes/shape.ts";
import { applyMergePatch } from "../verbs/patch.ts";
import { applyJsonPatch, parseOperations } from "./json-patch.ts";
import { applyStrategicMerge, lookUpField } from "./strategic-merge.ts";

function patched(target: unknown, operations: readonly object[]): unknown {
  return applyJsonPatch(target, parseOperations(operations, JSON.stringify(operations)));
}

const add = { op: "add", path: "/a", value: 1 };

test.each([
  { name: "a path that is a number", operations: [{ ...add, path: 5 }] },
  { name: "a source that is no pointer", operations: [{ op: "copy", from: "a", path: "/b" }] },
  {
    name: "a source in prototypes",
    operations: [{ op: "copy", from: "/constructor", path: "/b" }],
  },
  { name: "a prototype as a path", operations: [{ ...add, path: "/a/prototype" }] },
  { name: "a string as operation", operations: ["add"] },
  { name: "a missing op", operations: [{ path: "/a" }] },
])("rejects a patch with $name as invalid", ({ operations }) => {
  expect(() => parseOperations(operations, "")).toThrow("an operation has no known op");
});

test.each([
  { count: 10_000, want: undefined },
  { count: 10_001, want: 413 },
])("rejects a patch of $count operations with $want", ({ count, want }) => {
  const operations = Array.from({ length: count }, () => add);
  const outcome = (): unknown => {
    try {
      parseOperations(operations, "");
      return undefined;
    } catch (error) {
      return error;
    }
  };
  expect((outcome() as { code?: number } | undefined)?.code).toBe(want);
});

test.each([
  { name: "the whole", operations: [{ op: "add", path: "", value: 5 }] },
  { name: "a copy of a missing value", operations: [{ op: "copy", from: "/x", path: "/b" }] },
  { name: "a move of a missing value", operations: [{ op: "move", from: "/x", path: "/b" }] },
  {
    name: "a replacement of a missing value",
    operations: [{ op: "replace", path: "/x", value: 1 }],
  },
  {
    name: "an index beyond the end of a list",
    operations: [{ op: "add", path: "/l/9", value: 1 }],
  },
])("rejects a patch of $name", ({ operations }) => {
  expect(() => patched({ a: 1, l: [] }, operations)).toThrow(/rejected our request/);
});

test.each([
  { operations: [{ op: "replace", path: "/a", value: 2 }], want: { a: 2, l: [1] } },
  { operations: [{ op: "move", from: "/a", path: "/l/0" }], want: { l: [1, 1] } },
  { operations: [{ op: "copy", from: "/l", path: "/b" }], want: { a: 1, l: [1], b: [1] } },
  { operations: [], want: { a: 1, l: [1] } },
])("a patch of $operations produces $want", ({ operations, want }) => {
  expect(patched({ a: 1, l: [1] }, operations)).toEqual(want);
});

test("does not share a value of a patch with the object", () => {
  const value = { b: 1 };
  const operations = parseOperations(
    [
      { op: "add", path: "/a", value },
      { op: "add", path: "/a/c", value: 2 },
    ],
    "",
  );
  expect(applyJsonPatch({}, operations)).toEqual({ a: { b: 1, c: 2 } });
  expect(value).toEqual({ b: 1 });
});

const copies = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    op: "copy",
    from: "/a",
    path: `/b${String(index)}`,
  }));

test.each([
  { name: "1,000 copies", length: 1, count: 1000, want: undefined },
  { name: "1,001 copies", length: 1, count: 1001, want: /more than 1000 copies/ },
  { name: "3 MiB", length: 1024 * 1024 - 2, count: 3, want: undefined },
  {
    name: "a byte more than 3 MiB",
    length: 1024 * 1024 - 1,
    count: 3,
    want: /more than 3145728 bytes/,
  },
])("rejects a patch that copies $name: $want", ({ length, count, want }) => {
  const apply = (): unknown => {
    try {
      patched({ a: "x".repeat(length) }, copies(count));
      return "applied";
    } catch (error) {
      return String(error);
    }
  };
  expect(apply()).toMatch(want ?? /^applied$/);
});

test("rejects copies that produce an object of too many values", () => {
  const wide = { a: Array.from({ length: 17_000 }, () => 1) };
  expect(() => patched(wide, [{ op: "copy", from: "/a", path: "/b" }])).toThrow(
    "copies nest too deep or add too much",
  );
});

test.each([
  { patch: 5, want: 5 },
  { patch: [1], want: [1] },
  { patch: null, want: null },
])("a merge patch that is $patch becomes the result", ({ patch, want }) => {
  expect(applyMergePatch({ a: 1 }, patch)).toEqual(want);
});

test.each([5, [], null])("%j is not a strategic merge patch", (patch) => {
  expect(() => applyStrategicMerge({}, patch, undefined)).toThrow("error decoding patch");
});

test("a strategic merge patch cannot set prototypes", () => {
  const patch: unknown = JSON.parse('{"__proto__":{"a":1}}');
  expect(() => applyStrategicMerge({}, patch, undefined)).toThrow("error decoding patch");
});

const POD = typeShape("core.v1.PodSpec");
const spec = { volumes: [{ name: "a" }, { name: "b" }], nodeSelector: { x: "1" }, hostname: "h" };

test.each([
  { name: "removes a field", patch: { hostname: null }, want: { ...spec, hostname: undefined } },
  {
    name: "merges a map",
    patch: { nodeSelector: { y: "2" } },
    want: { ...spec, nodeSelector: { x: "1", y: "2" } },
  },
  {
    name: "empties an object",
    patch: { nodeSelector: { $patch: "delete", z: "1" } },
    want: { ...spec, nodeSelector: {} },
  },
  {
    name: "replaces a list",
    patch: { volumes: [{ $patch: "replace" }, { name: "c" }] },
    want: { ...spec, volumes: [{ name: "c" }] },
  },
  {
    name: "drops directives and null from new items",
    patch: { volumes: [{ name: "c", $retainKeys: ["name"], emptyDir: { $patch: "x", a: null } }] },
    want: { ...spec, volumes: [...spec.volumes, { name: "c", emptyDir: {} }] },
  },
  {
    name: "retains keys of an item",
    patch: { volumes: [{ name: "a", $retainKeys: ["name", "emptyDir"], emptyDir: {} }] },
    want: { ...spec, volumes: [{ name: "a", emptyDir: {} }, { name: "b" }] },
  },
  {
    name: "creates missing fields",
    patch: { tolerations: [{ key: "k" }], securityContext: { runAsUser: 1 } },
    want: { ...spec, tolerations: [{ key: "k" }], securityContext: { runAsUser: 1 } },
  },
  {
    name: "does not delete missing items",
    patch: { volumes: [{ name: "z", $patch: "delete" }] },
    want: spec,
  },
  {
    name: "retains the position of unlisted items",
    patch: { "$setElementOrder/volumes": [{ name: "z" }, { name: "b" }] },
    want: spec,
  },
  {
    name: "orders nothing if the list is missing",
    patch: { "$setElementOrder/hostname": ["a"], "$setElementOrder/none": ["a"] },
    want: spec,
  },
])("a strategic merge patch $name", ({ patch, want }) => {
  const before = structuredClone(spec);
  expect(applyStrategicMerge(spec, patch, POD)).toEqual(want);
  expect(spec).toEqual(before);
});

test("orders the values of a set", () => {
  const patch = { "$setElementOrder/finalizers": ["c", "a", "a"] };
  const meta = typeShape("meta.v1.ObjectMeta");
  const result = applyStrategicMerge({ finalizers: ["a", "b", "c"] }, patch, meta);
  expect(result["finalizers"]).toEqual(["c", "b", "a"]);
});

test.each([
  { type: "core.v1.PodSpec", field: "volumes", want: { mergeKey: "name" } },
  { type: "meta.v1.ObjectMeta", field: "finalizers", want: "set" },
  { type: "core.v1.PodSpec", field: "tolerations", want: undefined },
  { type: "core.v1.PodSpec", field: "hostname", want: undefined },
  { type: "core.v1.PodSpec", field: "none", want: undefined },
])("merges the list $field of $type by $want", ({ type, field, want }) => {
  expect(lookUpField(typeShape(type), field).listMerge).toEqual(want);
});

test("finds the type of map values, and no type without a shape", () => {
  const items = { type: "scalar", scalar: "string" } as const;
  expect(lookUpField({ type: "map", items }, "a")).toEqual({ shape: items, list: undefined });
  expect(lookUpField(undefined, "a")).toEqual({ shape: undefined, list: undefined });
});
