// SPDX-License-Identifier: Apache-2.0
// Write options: dry runs leave nothing behind, and invalid values are rejected.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, startHarness, widgetDefinition } from "../harness.ts";

const DEFAULT = "/api/v1/namespaces/default";
const MAPS = `${DEFAULT}/configmaps`;
const WIDGETS = "/apis/dry.test/v1/namespaces/default/widgets";
const MERGE = "application/merge-patch+json";
const JSON_PATCH = "application/json-patch+json";
const CONTAINERS = [{ name: "c", image: "i:1" }];

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
  await api.post(MAPS, { metadata: { name: "kept" }, data: { a: "1" } });
  await api.post(MAPS, { metadata: { name: "held", finalizers: ["test.io/hold"] } });
  await api.post(`${DEFAULT}/pods`, { metadata: { name: "p" }, spec: { containers: CONTAINERS } });
  await api.post(
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    widgetDefinition("dry.test"),
  );
  await api.post(WIDGETS, { apiVersion: "dry.test/v1", kind: "Widget", metadata: { name: "w" } });
});

afterAll(async () => {
  await api.close();
});

const BINDING = { metadata: { name: "p" }, target: { kind: "Node", name: "n" } };
const EVICTION = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: "p" } };

test.each([
  { method: "POST", path: MAPS, body: { metadata: { name: "new" } }, code: 201 },
  { method: "POST", path: MAPS, body: { metadata: { generateName: "new-" } }, code: 201 },
  { method: "POST", path: MAPS, body: { metadata: { name: "kept" } }, code: 409 },
  { method: "POST", path: MAPS, body: { metadata: { name: "B_ad" } }, code: 422 },
  { method: "PUT", path: `${MAPS}/kept`, body: { metadata: { name: "kept" } }, code: 200 },
  { method: "PUT", path: `${MAPS}/absent`, body: { metadata: { name: "absent" } }, code: 404 },
  { method: "PATCH", path: `${MAPS}/kept`, body: { data: { b: "2" } }, type: MERGE, code: 200 },
  {
    method: "PATCH",
    path: `${MAPS}/kept`,
    body: [{ op: "remove", path: "/data/a" }],
    type: JSON_PATCH,
    code: 200,
  },
  { method: "PATCH", path: `${WIDGETS}/w/status`, body: { status: {} }, type: MERGE, code: 200 },
  { method: "DELETE", path: `${MAPS}/kept`, code: 200 },
  { method: "DELETE", path: `${MAPS}/held`, code: 200 },
  { method: "DELETE", path: MAPS, code: 200 },
  { method: "DELETE", path: `${DEFAULT}/pods/p`, code: 200 },
  { method: "POST", path: `${DEFAULT}/pods/p/binding`, body: BINDING, code: 201 },
  { method: "POST", path: `${DEFAULT}/pods/p/eviction`, body: EVICTION, code: 201 },
])("dry run: $method $path returns $code and leaves nothing", async (request) => {
  const { method, path, code, ...ask } = request;
  const { body: before } = await api.get(MAPS);
  expect((await api.ask(method, `${path}?dryRun=All`, ask)).code).toBe(code);
  const { body: after } = await api.get(MAPS);
  expect(after.metadata.resourceVersion).toBe(before.metadata.resourceVersion);
});

test("a dry run returns the result without a new revision and with a deletion mark", async () => {
  const created = await api.post(`${MAPS}?dryRun=All`, { metadata: { name: "new" } });
  expect(created.body.metadata.resourceVersion).toBeUndefined();
  const { body: retained } = await api.get(`${MAPS}/kept`);
  const patched = await api.patch(`${MAPS}/kept?dryRun=All`, { data: { b: "2" } });
  expect(patched.body.metadata.resourceVersion).toBe(retained.metadata.resourceVersion);
  const marked = await api.delete(`${MAPS}/held`, { dryRun: ["All"] });
  expect(marked.body.metadata.deletionTimestamp).toBeDefined();
});

test.each([
  { query: "dryRun=true", field: "dryRun", reason: "FieldValueNotSupported" },
  { query: "dryRun=", field: "dryRun", reason: "FieldValueNotSupported" },
  { query: "fieldValidation=Bogus", field: "fieldValidation", reason: "FieldValueNotSupported" },
  {
    query: `fieldManager=${"x".repeat(129)}`,
    field: "fieldManager",
    reason: "FieldValueTooLong",
  },
  { query: "fieldManager=a%0Ab", field: "fieldManager", reason: "FieldValueInvalid" },
])("every write rejects $query", async ({ query, field, reason }) => {
  const named = `${MAPS}/kept?${query}`;
  const answers = [
    { kind: "CreateOptions", ...(await api.post(`${MAPS}?${query}`, { metadata: {} })) },
    { kind: "UpdateOptions", ...(await api.put(named, { metadata: { name: "kept" } })) },
    { kind: "PatchOptions", ...(await api.patch(named, {})) },
  ];
  for (const { kind, body } of answers) {
    expect(body).toMatchObject({
      code: 422,
      details: { group: "meta.k8s.io", kind, causes: [{ field, reason }] },
    });
  }
});

test("only server-side apply can be forced", async () => {
  const { body } = await api.patch(`${MAPS}/kept?force=true`, {});
  expect(body.details.causes[0]).toMatchObject({ field: "force", reason: "FieldValueForbidden" });
});

test.each([
  { what: "a value of another type", body: { data: { a: 5 } }, query: "" },
  { what: "an unknown field, strictly", body: { nope: 1 }, query: "?fieldValidation=Strict" },
])("rejects a patch that creates $what as a patch", async ({ body, query }) => {
  const refused = await api.patch(`${MAPS}/kept${query}`, body);
  expect(refused.code).toBe(422);
  expect(refused.body.details.causes[0]?.field).toBe("patch");
});

test("limits the size of a patch", async () => {
  const many = Array.from({ length: 10_001 }, () => ({ op: "test", path: "/data/a", value: "1" }));
  expect((await api.patch(`${MAPS}/kept`, many, JSON_PATCH)).code).toBe(413);
  await api.post(MAPS, { metadata: { name: "large" }, data: { a: "x".repeat(200_000) } });
  const copies = Array.from({ length: 40 }, (_, index) => ({
    op: "copy",
    from: "/data/a",
    path: `/data/b${String(index)}`,
  }));
  expect((await api.patch(`${MAPS}/large`, copies, JSON_PATCH)).code).toBe(422);
});

test("fifty writers without a resourceVersion lose no write", async () => {
  await api.post(MAPS, { metadata: { name: "busy" } });
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, index) =>
      api.patch(`${MAPS}/busy`, { data: { [`k${String(index)}`]: "v" } }),
    ),
  );
  expect(answers.filter(({ code }) => code !== 200)).toEqual([]);
  expect(Object.keys((await api.get(`${MAPS}/busy`)).body.data ?? {})).toHaveLength(50);
});
