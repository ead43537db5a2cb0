// SPDX-License-Identifier: Apache-2.0
// What does a patch make of an object?
import { messageOf } from "@patchbay/base";
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseJson } from "../objects/json.ts";
import { applyJsonPatch, parseOperations } from "./json-patch.ts";
import { applyMergePatch } from "../verbs/patch.ts";
import { typeShape } from "../shapes/shape.ts";
import { applyStrategicMerge } from "./strategic-merge.ts";

test.each([
  { name: "sets", target: { a: 1 }, patch: { b: 2 }, want: { a: 1, b: 2 } },
  { name: "removes", target: { a: 1, b: 2 }, patch: { a: null }, want: { b: 2 } },
  { name: "replaces lists", target: { l: [1, 2] }, patch: { l: [3] }, want: { l: [3] } },
  {
    name: "replaces scalars by objects",
    target: { a: 1 },
    patch: { a: { b: null } },
    want: { a: {} },
  },
  {
    name: "merges nested objects",
    target: { a: { b: 1 } },
    patch: { a: { c: 2 } },
    want: { a: { b: 1, c: 2 } },
  },
])("a merge patch $name", ({ target, patch, want }) => {
  const before = structuredClone(target);
  expect(applyMergePatch(target, patch)).toEqual(want);
  expect(target).toEqual(before);
});

test("a merge patch cannot set prototypes", () => {
  const patch: unknown = JSON.parse('{"__proto__":{"polluted":true}}');
  applyMergePatch({}, patch);
  expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
});

test("a merge patch is idempotent", () => {
  const value = fc.dictionary(fc.string(), fc.jsonValue());
  fc.assert(
    fc.property(value, value, (target, patch) => {
      const once = applyMergePatch(target, patch);
      expect(applyMergePatch(once, patch)).toEqual(once);
    }),
  );
});

test.each([
  { operations: [{ op: "add", path: "/l/-", value: 3 }], want: { l: [1, 2, 3] } },
  { operations: [{ op: "remove", path: "/l/0" }], want: { l: [2] } },
  { operations: [{ op: "test", path: "/l/0", value: 1 }], want: { l: [1, 2] } },
  { operations: [{ op: "add", path: "/a~1b", value: 1 }], want: { l: [1, 2], "a/b": 1 } },
])("a JSON patch %#", ({ operations, want }) => {
  expect(
    applyJsonPatch({ l: [1, 2] }, parseOperations(operations, JSON.stringify(operations))),
  ).toEqual(want);
});

test.each([
  { name: "a failed test", operations: [{ op: "test", path: "/a", value: 2 }] },
  { name: "a missing parent", operations: [{ op: "add", path: "/x/y", value: 2 }] },
  { name: "an absent key", operations: [{ op: "remove", path: "/x" }] },
  { name: "a parent that is a scalar", operations: [{ op: "add", path: "/a/b", value: 2 }] },
  {
    name: "a key that only the runtime's objects have",
    operations: [{ op: "remove", path: "/toString" }],
  },
  {
    name: "a path into a JavaScript prototype",
    operations: [{ op: "add", path: "/toString/call", value: 2 }],
  },
  {
    name: "a copy of a key that only JavaScript prototypes have",
    operations: [{ op: "copy", from: "/valueOf", path: "/b" }],
  },
])("rejects a JSON patch with $name as a whole", ({ operations }) => {
  const target = { a: 1 };
  const patch = [{ op: "add", path: "/z", value: 1 }, ...operations];
  const all = parseOperations(patch, JSON.stringify(patch));
  expect(() => applyJsonPatch(target, all)).toThrow(/rejected our request/);
  expect(target).toEqual({ a: 1 });
});

test.each([
  {},
  [{ op: "do", path: "/a" }],
  [{ op: "add", path: "a" }],
  [{ op: "add", path: "/__proto__/x", value: 1 }],
])("%j is not a JSON patch", (patch) => {
  expect(() => parseOperations(patch, JSON.stringify(patch))).toThrow(/error decoding patch/);
});

/** Source: kube-apiserver 1.26.5, asked for each. */
test.each([
  { stored: "a->b", written: '"a->b"', passes: false },
  { stored: "a->b", written: String.raw`"a-\u003eb"`, passes: true },
  { stored: "<nil>", written: String.raw`"\u003cnil\u003e"`, passes: true },
  { stored: "a&b", written: '"a&b"', passes: false },
  { stored: "a&b", written: String.raw`"a\u0026b"`, passes: true },
  { stored: "\u2028", written: '"\u2028"', passes: false },
  { stored: "\u2029", written: String.raw`"\u2029"`, passes: true },
  { stored: "ab", written: String.raw`"\u0061b"`, passes: false },
  { stored: { m: ["x", "a&b"] }, written: '{"m":["x","a&b"]}', passes: false },
  { stored: { m: ["x", "a&b"] }, written: String.raw`{"m":["x","a\u0026b"]}`, passes: true },
  { stored: 9007199254740993n, written: "9007199254740993", passes: true },
  { stored: 1, written: "1.0", passes: false },
])("a test of $stored against $written passes: $passes", ({ stored, written, passes }) => {
  const text = `[{"op":"test","path":"/v","value":${written}},{"op":"add","path":"/w","value":"<"}]`;
  const operations = parseOperations(parseJson(text), text);
  const outcome = (): unknown => {
    try {
      return applyJsonPatch({ v: stored }, operations);
    } catch (error) {
      return messageOf(error);
    }
  };
  const refused = expect.stringContaining("rejected our request") as unknown;
  expect(outcome()).toEqual(passes ? { v: stored, w: "<" } : refused);
});

test("a test compares a key named toString like any other key", () => {
  const text = '[{"op":"test","path":"/v","value":{"toString":""}}]';
  const operations = parseOperations(parseJson(text), text);
  const stored = { v: { toString: "" } };
  expect(applyJsonPatch(stored, operations)).toEqual(stored);
  expect(() => applyJsonPatch({ v: {} }, operations)).toThrow(/TestError/);
});

const pod = {
  metadata: { finalizers: ["x.io/a"] },
  spec: {
    containers: [
      { name: "a", image: "1", env: [{ name: "E", value: "1" }] },
      { name: "b", image: "1" },
    ],
    tolerations: [{ key: "k" }],
  },
};

test.each([
  {
    name: "merges containers by name",
    patch: { spec: { containers: [{ name: "b", image: "2" }] } },
    path: (result: typeof pod) => result.spec.containers.map(({ name, image }) => name + image),
    want: ["a1", "b2"],
  },
  {
    name: "deletes by key",
    patch: { spec: { containers: [{ name: "a", $patch: "delete" }] } },
    path: (result: typeof pod) => result.spec.containers.map(({ name }) => name),
    want: ["b"],
  },
  {
    name: "orders items by an order directive",
    patch: { spec: { "$setElementOrder/containers": [{ name: "b" }, { name: "a" }] } },
    path: (result: typeof pod) => result.spec.containers.map(({ name }) => name),
    want: ["b", "a"],
  },
  {
    name: "merges lists within lists",
    patch: { spec: { containers: [{ name: "a", env: [{ name: "F", value: "2" }] }] } },
    path: (result: typeof pod) => result.spec.containers[0]?.env?.map(({ name }) => name),
    want: ["E", "F"],
  },
  {
    name: "replaces lists without a key",
    patch: { spec: { tolerations: [{ key: "l" }] } },
    path: (result: typeof pod) => result.spec.tolerations,
    want: [{ key: "l" }],
  },
  {
    name: "merges sets",
    patch: { metadata: { finalizers: ["x.io/b", "x.io/a"] } },
    path: (result: typeof pod) => result.metadata.finalizers,
    want: ["x.io/a", "x.io/b"],
  },
  {
    name: "deletes values from sets",
    patch: { metadata: { "$deleteFromPrimitiveList/finalizers": ["x.io/a"] } },
    path: (result: typeof pod) => result.metadata.finalizers,
    want: [],
  },
  {
    name: "replaces a whole object",
    patch: { metadata: { $patch: "replace", finalizers: ["x.io/c"] } },
    path: (result: typeof pod) => result.metadata,
    want: { finalizers: ["x.io/c"] },
  },
])("a strategic merge patch $name", ({ patch, path, want }) => {
  // The patches keep the form of the pod.
  const result = applyStrategicMerge(pod, patch, typeShape("core.v1.Pod")) as unknown as typeof pod;
  expect(path(result)).toEqual(want);
});

test("deletes and replaces all items with the same key, and appends the new item", () => {
  const target = { volumes: [{ name: "a" }, { name: "b" }, { name: "a", emptyDir: {} }] };
  const patch = {
    volumes: [
      { name: "a", $patch: "delete" },
      { name: "c" },
      { name: "a" },
      { name: "c", image: {} },
    ],
    "$setElementOrder/volumes": [{ name: "c" }, { name: "a" }],
  };
  const result = applyStrategicMerge(target, patch, typeShape("core.v1.PodSpec"));
  expect(result["volumes"]).toEqual([{ name: "b" }, { name: "c", image: {} }, { name: "a" }]);
});

test("removes fields that are not in the list of retained keys", () => {
  const patch = { $retainKeys: ["a", "c"], c: 3 };
  expect(applyStrategicMerge({ a: 1, b: 2 }, patch, undefined)).toEqual({ a: 1, c: 3 });
});

test("rejects an item without its merge key", () => {
  const patch = { spec: { containers: [{ image: "2" }] } };
  expect(() => applyStrategicMerge(pod, patch, typeShape("core.v1.Pod"))).toThrow(
    "does not contain declared merge key: name",
  );
});

test("merges lists of the same name differently in different types", () => {
  const ports = { ports: [{ port: 1, name: "a" }] };
  const patch = { ports: [{ port: 2, name: "b" }] };
  const service = applyStrategicMerge(ports, patch, typeShape("core.v1.ServiceSpec"));
  expect(service["ports"]).toEqual([...ports.ports, ...patch.ports]);
  const subset = applyStrategicMerge(ports, patch, typeShape("core.v1.EndpointSubset"));
  expect(subset["ports"]).toEqual(patch.ports);
});
