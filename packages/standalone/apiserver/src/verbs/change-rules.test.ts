// SPDX-License-Identifier: Apache-2.0
// Which changes are refused, and what webhooks are asked about a change.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { badRequest } from "../meta/status.ts";
import { aConfigMap, aPod, widgetDefinition } from "../testing/objects.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const PODS = "/api/v1/namespaces/default/pods";
const MAPS = "/api/v1/namespaces/default/configmaps";
const WIDGETS = "/apis/test.io/v1/namespaces/default/widgets";

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
  await server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
  await server.put("pods", aPod("p"));
  await server.put("configmaps", aConfigMap());
});

afterEach(async () => {
  await server.close();
});

describe("causes of a rejected change", () => {
  test.each([
    {
      name: "forbidden metadata",
      path: `${MAPS}/m`,
      body: { metadata: { labels: { "a b": "c" } } },
      want: [{ field: "metadata.labels" }],
    },
    {
      name: "a change that the kind does not allow",
      path: `${PODS}/p`,
      body: { spec: { nodeName: "n2" } },
      want: [{ field: "spec", reason: "FieldValueForbidden" }],
    },
  ])("$name: 422", async ({ path, body, want }) => {
    const answer = await server.send("PATCH", path, { body });
    expect([answer.code, answer.body.details.causes]).toMatchObject([422, want]);
  });

  test("tolerates an invalid value that is already stored, but rejects a new invalid value", async () => {
    await server.put("test.io/widgets", {
      apiVersion: "test.io/v1",
      kind: "Widget",
      metadata: { name: "w", namespace: "default", uid: "u", generation: 1 },
      spec: { size: 900, color: "red" },
    });
    const fine = { metadata: { labels: { a: "b" } } };
    expect((await server.send("PATCH", `${WIDGETS}/w`, { body: fine })).code).toBe(200);
    const both = { spec: { replicas: "many" } };
    const refused = await server.send("PATCH", `${WIDGETS}/w`, { body: both });
    expect(refused.body.details.causes).toMatchObject([{ field: "spec.replicas" }]);
    expect(refused.body.details.causes).toHaveLength(1);
    const mended = await server.send("PATCH", `${WIDGETS}/w`, { body: { spec: { size: 2 } } });
    expect(mended.code).toBe(200);
    const broken = await server.send("PATCH", `${WIDGETS}/w`, { body: { spec: { size: 901 } } });
    expect(broken.body).toMatchObject({ code: 422, details: { name: "w", kind: "Widget" } });
  });
});

describe("webhooks", () => {
  test.each([
    {
      name: "the object",
      path: `${PODS}/p`,
      subresource: "",
      body: { metadata: { labels: { a: "b" } } },
    },
    {
      name: "the status",
      path: `${PODS}/p/status`,
      subresource: "status",
      body: { status: { phase: "Failed" } },
    },
  ])("are called twice for a change of $name", async ({ path, subresource, body }) => {
    await server.send("PATCH", `${path}?fieldManager=me`, { body });
    const request = {
      operation: "UPDATE",
      subresource,
      namespace: "default",
      name: "p",
      dryRun: false,
      options: { kind: "UpdateOptions", apiVersion: "meta.k8s.io/v1", fieldManager: "me" },
      user: { name: "admin" },
      object: body,
      oldObject: { status: { phase: "Running" } },
    };
    expect(server.webhooks.recorded).toMatchObject([
      { phase: "mutate", request },
      { phase: "validate", request },
    ]);
    expect(server.webhooks.recorded[0]?.request.bodyKind).toBeUndefined();
  });

  test("receive the dry run flag", async () => {
    await server.send("PATCH", `${MAPS}/m?dryRun=All`, { body: { data: { k: "2" } } });
    expect(server.webhooks.recorded.map(({ request }) => request.dryRun)).toEqual([true, true]);
  });

  test.each(["mutate", "validate"] as const)("reject in %s without any write", async (phase) => {
    server.webhooks.onRequest = (asked) => {
      if (asked.phase === phase) throw badRequest("no");
    };
    const answer = await server.send("PATCH", `${MAPS}/m`, { body: { data: { k: "2" } } });
    expect([answer.code, answer.body.message]).toEqual([400, "no"]);
    expect(server.stored("configmaps", "m")?.["data"]).toEqual({ k: "1" });
  });

  test("can only change the status of a status write", async () => {
    await server.put("test.io/widgets", {
      apiVersion: "test.io/v1",
      kind: "Widget",
      metadata: { name: "w", namespace: "default", uid: "u", generation: 1 },
      spec: { size: 1, color: "red" },
    });
    server.webhooks.change = (object) => {
      object["spec"] = { size: 7 };
      object["status"] = { phase: "Theirs" };
    };
    const { body } = await server.send("PATCH", `${WIDGETS}/w/status`, {
      body: { status: { phase: "Mine" } },
    });
    expect(body).toMatchObject({ spec: { size: 1 }, status: { phase: "Theirs" } });
  });

  test("the object that they return is defaulted and its generation counted", async () => {
    await server.put("test.io/widgets", {
      apiVersion: "test.io/v1",
      kind: "Widget",
      metadata: { name: "w", namespace: "default", uid: "u", generation: 1 },
      spec: { size: 1, color: "red" },
    });
    server.webhooks.change = (object) => {
      object["spec"] = { size: 7, unknown: true };
    };
    const { body } = await server.send("PATCH", `${WIDGETS}/w`, {
      body: { metadata: { labels: { a: "b" } } },
    });
    expect([body["spec"], body.metadata.generation]).toEqual([{ size: 7, color: "red" }, 2]);
  });
});

test("a namespace retains its finalizers and its label in a main write", async () => {
  const body = { metadata: { labels: { a: "b" } }, spec: { finalizers: null } };
  const answer = await server.send("PATCH", "/api/v1/namespaces/other", { body });
  expect(answer.body).toMatchObject({
    metadata: { labels: { a: "b", "kubernetes.io/metadata.name": "other" } },
    spec: { finalizers: ["kubernetes"] },
  });
  const status = { metadata: { labels: { "kubernetes.io/metadata.name": null } }, status: {} };
  const own = await server.send("PATCH", "/api/v1/namespaces/other/status", { body: status });
  expect(own.body.metadata.labels).toEqual({ a: "b" });
});

test.each([
  { name: "a long body", stored: "v", sent: "v".repeat(17_000) },
  { name: "a long object", stored: "v".repeat(17_000), sent: "v" },
])("$name waits in the fair queue at each step", async ({ stored, sent }) => {
  await server.send("PATCH", `${MAPS}/m`, { body: { data: { k: stored } } });
  const waited: string[] = [];
  const { fairQueue } = server.deps;
  const take = fairQueue.waitForTurn.bind(fairQueue);
  fairQueue.waitForTurn = (user) => {
    waited.push(user.name);
    return take(user);
  };
  await server.send("PATCH", `${MAPS}/m`, { body: { data: { other: sent } } });
  expect(waited.length).toBeGreaterThanOrEqual(3);
});
