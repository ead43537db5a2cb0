// SPDX-License-Identifier: Apache-2.0
// Admission, dry runs and races of DELETE.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { badRequest } from "../meta/status.ts";
import type { Fields } from "../objects/json.ts";
import { aConfigMap, widgetDefinition } from "../testing/objects.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const MAP = "/api/v1/namespaces/default/configmaps/m";

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
});

afterEach(async () => {
  await server.close();
});

async function putMap(metadata: Fields = {}): Promise<void> {
  await server.put("configmaps", aConfigMap(metadata));
}

describe("admission", () => {
  test("receives the object and the options", async () => {
    await putMap();
    await server.send("DELETE", `${MAP}?dryRun=All&propagationPolicy=Background`);
    expect(server.webhooks.recorded).toMatchObject([
      {
        phase: "delete",
        request: {
          operation: "DELETE",
          subresource: "",
          namespace: "default",
          name: "m",
          object: undefined,
          oldObject: { kind: "ConfigMap", data: { k: "1" } },
          options: { kind: "DeleteOptions", propagationPolicy: "Background", dryRun: ["All"] },
          user: { name: "admin" },
          dryRun: true,
        },
      },
    ]);
  });

  test("rejects, and the object is retained", async () => {
    await putMap();
    server.webhooks.onRequest = () => {
      throw badRequest("no");
    };
    expect((await server.send("DELETE", MAP)).code).toBe(400);
    expect(server.stored("configmaps", "m")).toBeDefined();
  });
});

describe("dry run", () => {
  test.each([
    { name: "an object without finalizers", metadata: {}, kind: "Status" },
    {
      name: "an object with finalizers",
      metadata: { finalizers: ["t.io/a"] },
      kind: "ConfigMap",
    },
  ])("$name stays unchanged", async ({ metadata, kind }) => {
    await putMap(metadata);
    const before = server.deps.store.revision();
    const answer = await server.send("DELETE", `${MAP}?dryRun=All`);
    expect([answer.code, answer.body["kind"], server.deps.store.revision()]).toEqual([
      200,
      kind,
      before,
    ]);
  });
});

describe("races", () => {
  test.each([
    {
      name: "a concurrent change causes a retry",
      times: 2,
      code: 200,
      message: undefined,
    },
    {
      name: "continuous concurrent changes cause a 409",
      times: Infinity,
      code: 409,
      message:
        'Operation cannot be fulfilled on configmaps "m": the object changes too often to be deleted',
    },
  ])("$name", async ({ times, code, message }) => {
    await putMap();
    let count = 0;
    server.webhooks.onRequest = async () => {
      count += 1;
      if (count <= times) await putMap({ labels: { count: String(count) } });
    };
    const answer = await server.send("DELETE", MAP);
    expect([answer.code, server.stored("configmaps", "m") === undefined]).toEqual([
      code,
      code === 200,
    ]);
    expect(answer.body.message).toBe(message);
    expect(count).toBe(Number.isFinite(times) ? times + 1 : 1000);
  });
});

test("deleting a custom resource increments its generation and preserves the storage version", async () => {
  await server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
  await server.put("test.io/widgets", {
    apiVersion: "test.io/v1",
    kind: "Widget",
    metadata: { name: "w", namespace: "default", generation: 1, finalizers: ["t.io/a"] },
  });
  const answer = await server.send("DELETE", "/apis/test.io/v2/namespaces/default/widgets/w");
  expect([answer.body["apiVersion"], answer.body.metadata.generation]).toEqual(["test.io/v2", 2]);
  expect(server.stored("test.io/widgets", "w")?.apiVersion).toBe("test.io/v1");
});

test("a large object waits in the fair queue", async () => {
  await putMap({ annotations: { long: "v".repeat(17_000) } });
  const waited: string[] = [];
  server.deps.fairQueue.waitForTurn = (user) => {
    waited.push(user.name);
    return Promise.resolve(undefined);
  };
  await server.send("DELETE", MAP);
  expect(waited).toEqual(["admin"]);
});
