// SPDX-License-Identifier: Apache-2.0
// Malformed requests: each is rejected or served, none is a server failure.
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, startHarness } from "../harness.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const MERGE = "application/merge-patch+json";
const STRATEGIC = "application/strategic-merge-patch+json";
const JSON_PATCH = "application/json-patch+json";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
  await api.post(MAPS, { metadata: { name: "target" }, data: { a: "1" } });
});

afterAll(async () => {
  await api.close();
});

test.each([
  { what: "deeply nested lists", body: `{"data":${"[".repeat(100_000)}${"]".repeat(100_000)}}` },
  {
    what: "deeply nested objects",
    body: `{"data":${'{"a":'.repeat(50_000)}1${"}".repeat(50_001)}`,
  },
  { what: "a byte order mark", body: '\u{feff}{"metadata":{"name":"bom"}}' },
  { what: "a number out of range", body: '{"metadata":{"name":"n","generation":1e400}}' },
  { what: "an invalid name", body: '{"metadata":{"name":5}}' },
  { what: "invalid metadata", body: '{"metadata":[]}' },
  {
    what: "a label named like a JavaScript built-in",
    body: '{"metadata":{"labels":{"__proto__":"x"},"name":"n"}}',
  },
  { what: "two objects", body: '{"a":1}{"b":2}' },
  { what: "a NUL character", body: "\u0000" },
  { what: "a value that is not an object", body: "true" },
])("rejects a body with $what", async ({ body }) => {
  const { code } = await api.ask("POST", MAPS, { body });
  expect([400, 422]).toContain(code);
});

test.each([
  `${MAPS}/a%2Fb`,
  `${MAPS}/%zz`,
  `${MAPS}/a/b/c/d`,
  `${MAPS}/__proto__`,
  "/api/v1//configmaps",
  "/api/v1/constructor",
  "/apis/__proto__/v1/constructor",
  "/api/v1/namespaces/%2F/configmaps",
])("returns 404 at %s", async (path) => {
  expect((await api.get(path)).code).toBe(404);
});

test.each([MERGE, STRATEGIC])(
  "%s: treats names of JavaScript built-ins like other keys",
  async (type) => {
    const body = '{"data":{"__proto__":"x","constructor":"y"}}';
    const patched = await api.ask("PATCH", `${MAPS}/target`, { body, type });
    expect(patched.text).toContain('"__proto__":"x"');
    expect((await api.get(`${MAPS}/target`)).text).toContain('"constructor":"y"');
  },
);

test.each(["HEAD", "OPTIONS"])("%s is not served", async (method) => {
  expect((await api.ask(method, MAPS)).code).toBe(405);
});

test("accepts a long selector", async () => {
  const values = Array.from({ length: 1500 }, (_, index) => `value-${String(index)}`).join(",");
  expect((await api.get(`${MAPS}?labelSelector=a+in+(${values})`)).code).toBe(200);
});

const ANY_BODY = fc.record(
  {
    kind: fc.jsonValue(),
    metadata: fc.record(
      {
        name: fc.oneof(fc.constant("target"), fc.jsonValue()),
        labels: fc.jsonValue(),
        finalizers: fc.jsonValue(),
        ownerReferences: fc.jsonValue(),
        resourceVersion: fc.jsonValue(),
        deletionTimestamp: fc.jsonValue(),
      },
      { requiredKeys: [] },
    ),
    data: fc.jsonValue(),
    preconditions: fc.jsonValue(),
    propagationPolicy: fc.jsonValue(),
    spec: fc.jsonValue(),
  },
  { requiredKeys: [] },
);

const ANY_OPERATION = fc.record({
  op: fc.constantFrom("add", "remove", "replace", "move", "copy", "test", "no"),
  path: fc.constantFrom(
    "",
    "/",
    "/data",
    "/data/a",
    "/metadata/labels",
    "/metadata/-",
    "/kind",
    "/data/toString",
    "/data/toString/call",
    "/kind/x",
    "/metadata/managedFields/0",
  ),
  from: fc.constantFrom("", "/data", "/metadata", "/data/a", "/data/toString"),
  value: fc.jsonValue(),
});

test.each([
  { method: "POST", path: MAPS, type: "application/json", body: ANY_BODY },
  { method: "PUT", path: `${MAPS}/target`, type: "application/json", body: ANY_BODY },
  { method: "PATCH", path: `${MAPS}/target`, type: MERGE, body: ANY_BODY },
  { method: "PATCH", path: `${MAPS}/target`, type: STRATEGIC, body: ANY_BODY },
  { method: "PATCH", path: `${MAPS}/target`, type: JSON_PATCH, body: fc.array(ANY_OPERATION) },
  { method: "DELETE", path: `${MAPS}/absent`, type: "application/json", body: ANY_BODY },
  {
    method: "POST",
    path: "/api/v1/namespaces/default/pods?dryRun=All",
    type: "application/json",
    body: ANY_BODY,
  },
])("answers $method $type with any body", async ({ method, path, type, body }) => {
  await fc.assert(
    fc.asyncProperty(body, async (value) => {
      const { code } = await api.ask(method, path, { body: JSON.stringify(value), type });
      expect(code).toBeLessThan(500);
    }),
    { numRuns: 60 },
  );
});
