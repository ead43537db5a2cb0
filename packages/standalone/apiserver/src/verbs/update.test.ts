// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, test } from "vitest";
import { widgetDefinition } from "../testing/objects.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const WIDGETS = "/apis/test.io/v1/namespaces/default/widgets";
const STALE = /the object has been modified; please apply your changes to the latest version/;

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
  await server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
  const metadata = { namespace: "default", uid: "u" };
  await server.put("configmaps", {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { ...metadata, name: "m", labels: { old: "1" } },
    data: { k: "1" },
  });
  await server.put("coordination.k8s.io/leases", {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { ...metadata, name: "m" },
  });
  await server.put("test.io/widgets", {
    apiVersion: "test.io/v1",
    kind: "Widget",
    metadata: { ...metadata, name: "m", generation: 1 },
    spec: { size: 1, color: "red" },
  });
});

afterEach(async () => {
  await server.close();
});

test("replaces the whole object", async () => {
  const body = { metadata: { name: "m", labels: { new: "1" } }, binaryData: { b: "AA==" } };
  const answer = await server.send("PUT", `${MAPS}/m`, { body });
  expect([answer.code, answer.body]).toEqual([
    200,
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: {
        name: "m",
        namespace: "default",
        uid: "u",
        labels: { new: "1" },
        resourceVersion: String(server.deps.store.revision()),
      },
      binaryData: { b: "AA==" },
    },
  ]);
  expect(server.stored("configmaps", "m")).toEqual(answer.body);
});

test.each([
  {
    name: "a name of another object",
    path: `${MAPS}/m`,
    metadata: { name: "other" },
    code: 400,
    message: "the name of the object (other) does not match the name on the URL (m)",
  },
  {
    name: "an empty name",
    path: `${MAPS}/m`,
    metadata: {},
    code: 400,
    message: "the name of the object (m based on URL) was undeterminable: name must be provided",
  },
  {
    name: "another namespace",
    path: `${MAPS}/m`,
    metadata: { name: "m", namespace: "other" },
    code: 400,
    message:
      "the namespace of the provided object does not match the namespace sent on the request",
  },
  {
    name: "an unknown object",
    path: `${MAPS}/none`,
    metadata: { name: "none" },
    code: 404,
    message: 'configmaps "none" not found',
  },
  {
    name: "a status of an unknown object",
    path: "/api/v1/nodes/none/status",
    metadata: { name: "none" },
    code: 404,
    message: 'nodes "none" not found',
  },
  {
    name: "another uid",
    path: `${MAPS}/m`,
    metadata: { name: "m", uid: "x" },
    code: 409,
    message:
      'Operation cannot be fulfilled on configmaps "m": Precondition failed: UID in precondition: x, UID in object meta: u',
  },
  {
    name: "an old version without other changes",
    path: `${MAPS}/m`,
    metadata: { name: "m", resourceVersion: "1" },
    code: 409,
    message: expect.stringMatching(STALE) as string,
  },
  {
    name: "no version of a lease",
    path: `${LEASES}/m`,
    metadata: { name: "m" },
    code: 422,
    message:
      'Lease.coordination.k8s.io "m" is invalid: metadata.resourceVersion: Invalid value: 0x0: must be specified for an update',
  },
])("$name: $code", async ({ path, metadata, code, message }) => {
  const before = server.deps.store.revision();
  const answer = await server.send("PUT", path, { body: { metadata } });
  expect([answer.code, answer.body.message]).toEqual([code, message]);
  expect(server.deps.store.revision()).toBe(before);
});

test("reports a missing version as a cause", async () => {
  const answer = await server.send("PUT", `${LEASES}/m`, { body: { metadata: { name: "m" } } });
  expect(answer.body.details.causes).toEqual([
    {
      reason: "FieldValueInvalid",
      field: "metadata.resourceVersion",
      message: "Invalid value: 0x0: must be specified for an update",
    },
  ]);
});

test.each([
  { name: "the version and uid of the object", metadata: { uid: "u" }, current: true },
  { name: "neither", metadata: {}, current: false },
  { name: "an empty version", metadata: { resourceVersion: "" }, current: false },
  { name: "its own namespace", metadata: { namespace: "default" }, current: false },
])("accepts $name with 200", async ({ metadata, current }) => {
  const version = server.stored("configmaps", "m")?.metadata.resourceVersion;
  const own = { name: "m", ...metadata, ...(current ? { resourceVersion: version } : {}) };
  const answer = await server.send("PUT", `${MAPS}/m`, {
    body: { metadata: own, data: { k: "2" } },
  });
  expect([answer.code, answer.body["data"]]).toEqual([200, { k: "2" }]);
});

test("drops the namespace of a cluster-scoped object", async () => {
  await server.put("nodes", { apiVersion: "v1", kind: "Node", metadata: { name: "n" } });
  const body = { metadata: { name: "n", namespace: "default", labels: { a: "b" } } };
  const answer = await server.send("PUT", "/api/v1/nodes/n", { body });
  expect([answer.code, answer.body.metadata.namespace]).toEqual([200, undefined]);
});

test("creates a lease by PUT", async () => {
  const body = { metadata: { name: "new" }, spec: { holderIdentity: "me" } };
  const answer = await server.send("PUT", `${LEASES}/new`, { body });
  expect([answer.code, server.stored("coordination.k8s.io/leases", "new")?.["spec"]]).toEqual([
    201,
    { holderIdentity: "me" },
  ]);
});

test("retries a PUT without a version after a lost race", async () => {
  let attempts = 0;
  server.webhooks.onRequest = async ({ phase }) => {
    if (phase !== "validate") return;
    attempts += 1;
    if (attempts > 1) return;
    await server.put("configmaps", {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "m", namespace: "default", uid: "u" },
    });
  };
  const body = { metadata: { name: "m" }, data: { k: "2" } };
  const answer = await server.send("PUT", `${MAPS}/m`, { body });
  expect([answer.code, answer.body["data"], attempts]).toEqual([200, { k: "2" }, 2]);
});

test("rejects custom resources without a version with 422, also for the status", async () => {
  const body = { apiVersion: "test.io/v1", kind: "Widget", metadata: { name: "m" } };
  for (const path of [`${WIDGETS}/m`, `${WIDGETS}/m/status`]) {
    expect((await server.send("PUT", path, { body })).code).toBe(422);
  }
});
