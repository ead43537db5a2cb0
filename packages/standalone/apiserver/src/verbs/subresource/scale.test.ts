// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import { widgetDefinition } from "../../testing/objects.ts";
import { type TestServer, startTestServer } from "../../testing/test-server.ts";

const WIDGET = "/apis/test.io/v1/namespaces/default/widgets/w";
const SCALE = `${WIDGET}/scale`;

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
  await server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
});

afterEach(async () => {
  await server.close();
});

async function putWidget(fields: Fields): Promise<void> {
  await server.put("test.io/widgets", {
    apiVersion: "test.io/v1",
    kind: "Widget",
    metadata: {
      name: "w",
      namespace: "default",
      uid: "u",
      generation: 1,
      creationTimestamp: "1970-01-01T00:00:00Z",
      labels: { hidden: "yes" },
    },
    ...fields,
  });
}

function versionOf(): string {
  return server.stored("test.io/widgets", "w")?.metadata.resourceVersion ?? "";
}

describe("the scale of an object", () => {
  test.each([
    {
      name: "contains all values",
      fields: { spec: { replicas: 3 }, status: { replicas: 2, selector: "a=b" } },
      want: { spec: { replicas: 3 }, status: { replicas: 2, selector: "a=b" } },
    },
    {
      name: "contains defaults if values are missing",
      fields: { spec: {} },
      want: { spec: { replicas: 0 }, status: { replicas: 0 } },
    },
  ])("$name", async ({ fields, want }) => {
    await putWidget(fields);
    const { code, body } = await server.send("GET", SCALE);
    expect([code, body]).toEqual([
      200,
      {
        kind: "Scale",
        apiVersion: "autoscaling/v1",
        metadata: {
          name: "w",
          namespace: "default",
          uid: "u",
          resourceVersion: versionOf(),
          creationTimestamp: "1970-01-01T00:00:00Z",
        },
        ...want,
      },
    ]);
  });

  test("of an unknown object returns 404", async () => {
    expect(await server.send("GET", SCALE)).toMatchObject({
      code: 404,
      body: { message: 'widgets.test.io "w" not found' },
    });
  });

  test("of a kind without a scale returns 404", async () => {
    expect((await server.send("GET", "/api/v1/namespaces/default/pods/p/scale")).code).toBe(404);
  });
});

describe("a change of the scale", () => {
  test.each([
    { name: "PUT", method: "PUT", body: { metadata: { name: "w" }, spec: { replicas: 5 } } },
    { name: "a merge patch", method: "PATCH", body: { spec: { replicas: 5 } } },
  ])("by $name sets only the number of replicas", async ({ method, body }) => {
    await putWidget({ spec: { size: 1, replicas: 3 }, status: { replicas: 3 } });
    const answer = await server.send(method, SCALE, { body });
    expect([answer.code, answer.body]).toMatchObject([
      200,
      {
        kind: "Scale",
        spec: { replicas: 5 },
        status: { replicas: 3 },
        metadata: { resourceVersion: versionOf() },
      },
    ]);
    expect(server.stored("test.io/widgets", "w")).toMatchObject({
      metadata: { generation: 2, labels: { hidden: "yes" } },
      spec: { size: 1, color: "red", replicas: 5 },
      status: { replicas: 3 },
    });
  });

  test("applies JSON patch operations to the scale", async () => {
    await putWidget({ spec: { replicas: 3 } });
    const body = [
      { op: "test", path: "/kind", value: "Scale" },
      { op: "replace", path: "/spec/replicas", value: 4 },
    ];
    const contentType = "application/json-patch+json";
    const answer = await server.send("PATCH", SCALE, { body, contentType });
    expect([answer.code, answer.body["spec"]]).toEqual([200, { replicas: 4 }]);
  });

  test("creates missing parent objects of the replicas path", async () => {
    await putWidget({});
    const body = { metadata: { name: "w" }, spec: { replicas: 5 } };
    expect((await server.send("PUT", SCALE, { body })).code).toBe(200);
    expect(server.stored("test.io/widgets", "w")?.["spec"]).toEqual({ replicas: 5, color: "red" });
  });

  test("of an outdated version fails with 409", async () => {
    await putWidget({ spec: { replicas: 3 } });
    const metadata = { name: "w", resourceVersion: versionOf() };
    const body = { metadata, spec: { replicas: 5 } };
    expect((await server.send("PUT", SCALE, { body })).code).toBe(200);
    expect(await server.send("PUT", SCALE, { body })).toMatchObject({
      code: 409,
      body: { details: { name: "w", kind: "widgets", group: "test.io" } },
    });
    expect((await server.send("PATCH", SCALE, { body })).code).toBe(409);
  });

  test.each([
    {
      name: "another name",
      method: "PUT",
      body: { metadata: { name: "x" }, spec: { replicas: 1 } },
      code: 400,
      message: "the name of the object (x) does not match the name on the URL (w)",
    },
    {
      name: "a missing number of replicas",
      method: "PUT",
      body: { metadata: { name: "w" }, spec: {} },
      code: 400,
      message: "spec.replicas: Required value",
    },
    {
      name: "a string as number of replicas",
      method: "PATCH",
      body: { spec: { replicas: "5" } },
      code: 400,
      message: "spec.replicas: Required value",
    },
    {
      name: "a part of a pod",
      method: "PATCH",
      body: { spec: { replicas: 1.5 } },
      code: 422,
      message: expect.stringContaining("spec.replicas") as string,
    },
  ])("$name: $code", async ({ method, body, code, message }) => {
    await putWidget({ spec: { replicas: 3 } });
    const answer = await server.send(method, SCALE, { body });
    expect([answer.code, answer.body.message]).toEqual([code, message]);
  });

  test("accepts a strategic merge patch of a built-in kind, as kubectl sends", async () => {
    const template = {
      metadata: { labels: { a: "b" } },
      spec: { containers: [{ name: "c", image: "i" }] },
    };
    const body = {
      metadata: { name: "r" },
      spec: { replicas: 1, selector: { matchLabels: { a: "b" } }, template },
    };
    const path = "/apis/apps/v1/namespaces/default/replicasets";
    await server.send("POST", path, { body });
    const contentType = "application/strategic-merge-patch+json";
    const patch = { body: { spec: { replicas: 2 } }, contentType };
    expect(await server.send("PATCH", `${path}/r/scale`, patch)).toMatchObject({
      code: 200,
      body: { kind: "Scale", spec: { replicas: 2 }, status: { replicas: 0, selector: "a=b" } },
    });
  });

  test("rejects a strategic merge patch of a custom resource with 415", async () => {
    const contentType = "application/strategic-merge-patch+json";
    expect((await server.send("PATCH", SCALE, { body: {}, contentType })).code).toBe(415);
  });
});

describe("admission", () => {
  test("receives the Scale before and after the change", async () => {
    await putWidget({ spec: { replicas: 3 } });
    await server.send("PATCH", SCALE, { body: { spec: { replicas: 5 } } });
    const request = {
      bodyKind: { group: "autoscaling", version: "v1", kind: "Scale" },
      subresource: "scale",
      operation: "UPDATE",
      object: { kind: "Scale", spec: { replicas: 5 } },
      oldObject: { kind: "Scale", spec: { replicas: 3 } },
    };
    expect(server.webhooks.recorded).toMatchObject([
      { phase: "mutate", request },
      { phase: "validate", request },
    ]);
  });

  test("may change the number of replicas", async () => {
    await putWidget({ spec: { replicas: 3 } });
    server.webhooks.change = (scale) => {
      scale["spec"] = { replicas: 9 };
    };
    const answer = await server.send("PATCH", SCALE, { body: { spec: { replicas: 5 } } });
    expect([answer.body["spec"], server.stored("test.io/widgets", "w")?.["spec"]]).toMatchObject([
      { replicas: 9 },
      { replicas: 9 },
    ]);
  });
});
