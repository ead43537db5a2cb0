// SPDX-License-Identifier: Apache-2.0
// Requests as they arrive over HTTP: users, rights, resources, refusals and the form of answers.
import type { IncomingMessage } from "node:http";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { POD } from "../kinds/workload/pod.ts";
import { tooManyRequests } from "../meta/status.ts";
import type { ReceivedAnswer, SentRequest } from "../testing/memory-network.ts";
import { type Headers, type TestApp, json, startTestApp } from "../testing/test-app.ts";
import { authenticatedUser } from "./access-filter.ts";

let app: TestApp;

beforeAll(async () => {
  app = await startTestApp();
});

afterAll(async () => {
  await app.server.close();
});

function send(path: string, sent: SentRequest = {}): Promise<ReceivedAnswer> {
  return app.send(path, sent);
}

describe("users", () => {
  test.each<{ name: string; headers: Headers; path: string; want: unknown }>([
    {
      name: "an unknown token",
      headers: { authorization: "Bearer wrong" },
      path: "/api/v1/pods",
      want: { code: 401, reason: "Unauthorized", message: "Unauthorized" },
    },
    {
      name: "a token without a scheme",
      headers: { authorization: "t-admin" },
      path: "/api/v1/pods",
      want: {
        code: 403,
        reason: "Forbidden",
        message:
          'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope',
      },
    },
    {
      name: "a user without rights",
      headers: { authorization: "bearer t-bob" },
      path: "/api/v1/namespaces/default/pods/p1/status",
      want: {
        code: 403,
        reason: "Forbidden",
        message:
          'pods "p1" is forbidden: User "bob" cannot get resource "pods/status" in API group "" in the namespace "default"',
      },
    },
    {
      name: "a user without rights on a path",
      headers: { authorization: "Bearer t-bob" },
      path: "/backup",
      want: {
        code: 403,
        reason: "Forbidden",
        message: 'forbidden: User "bob" cannot get path "/backup"',
      },
    },
    {
      name: "a user that may not impersonate",
      headers: { authorization: "Bearer t-bob", "impersonate-user": "admin" },
      path: "/api/v1/pods",
      want: {
        code: 403,
        reason: "Forbidden",
        message:
          'users "admin" is forbidden: User "bob" cannot impersonate resource "users" in API group "" at the cluster scope',
      },
    },
    {
      name: "the rights of the impersonated user",
      headers: { "impersonate-user": "eve" },
      path: "/api/v1/pods",
      want: {
        code: 403,
        reason: "Forbidden",
        message:
          'pods is forbidden: User "eve" cannot list resource "pods" in API group "" at the cluster scope',
      },
    },
  ])("$name", async ({ headers, path, want }) => {
    const { code, text } = await send(path, { headers });
    const { reason, message } = json(text);
    expect({ code, reason, message }).toEqual(want);
  });

  test("returns a text error to a client that impersonates a group without a user", async () => {
    const { code, headers, text } = await send("/api/v1/pods", {
      headers: { "impersonate-group": "g" },
    });
    expect([code, headers["content-type"]]).toEqual([500, "text/plain; charset=utf-8"]);
    expect(text).toBe(
      'Internal Server Error: "/api/v1/pods": requested [{Group  g    }] without impersonating a user\n',
    );
  });

  test.each(["/api/v1/../v1/pods", "/api/v1/%2e%2e/pods"])(
    "rejects the ambiguous path %s",
    async (path) => {
      expect((await send(path)).code).toBe(404);
    },
  );
});

describe("resources", () => {
  test("sends an object with the common headers", async () => {
    const { code, headers, text } = await send("/api/v1/namespaces/default/pods/p1");
    expect(code).toBe(200);
    expect(headers["content-type"]).toBe("application/json");
    expect(headers["content-length"]).toBe(String(Buffer.byteLength(text)));
    expect(headers["audit-id"]).toMatch(/^[0-9a-f-]{36}$/);
    expect(headers["cache-control"]).toBe("no-cache, private");
    expect([headers.etag, headers["x-powered-by"]]).toEqual([undefined, undefined]);
    expect(json(text)).toMatchObject({ kind: "Pod", metadata: { name: "p1" } });
  });

  test("creates an object from YAML and sends its warnings", async () => {
    const { code, headers, text } = await send("/api/v1/namespaces/default/configmaps", {
      method: "POST",
      headers: { "content-type": "application/yaml; charset=utf-8", accept: "application/yaml" },
      body: "metadata: {name: y}\ndatum: {a: b}\n",
    });
    expect([code, headers["content-type"]]).toEqual([201, "application/yaml"]);
    expect(headers["warning"]).toBe('299 - "unknown field \\"datum\\""');
    expect(text).toContain("\n  name: y\n");
  });

  const pods = "/api/v1/namespaces/default/pods";
  test.each<{
    name: string;
    method?: string;
    path: string;
    headers?: Headers;
    body?: string;
    code: number;
    message: string;
  }>([
    {
      name: "an unknown path",
      path: "/nope",
      code: 404,
      message: "the server could not find the requested resource",
    },
    {
      name: "CDI's settings, which virtctl reads before it makes a claim for a memory dump",
      path: "/apis/cdi.kubevirt.io/v1beta1/cdiconfigs/config",
      code: 400,
      message:
        "Patchbay has neither memory dumps nor the Containerized Data Importer; nothing was changed",
    },
    {
      name: "an unknown resource",
      path: "/api/v1/nopes",
      code: 404,
      message: "the server could not find the requested resource",
    },
    { name: "an unknown object", path: `${pods}/p2`, code: 404, message: 'pods "p2" not found' },
    {
      name: "a method that collections do not support",
      method: "PUT",
      path: pods,
      code: 405,
      message: "the server does not allow this method on the requested resource",
    },
    {
      name: "a method that objects do not support",
      method: "POST",
      path: `${pods}/p1`,
      code: 405,
      message: "the server does not allow this method on the requested resource",
    },
    {
      name: "a method of no subresource",
      method: "DELETE",
      path: `${pods}/p1/status`,
      code: 405,
      message: "the server does not allow this method on the requested resource",
    },
    {
      name: "an unknown subresource",
      path: `${pods}/p1/nope`,
      code: 404,
      message: "the server could not find the requested resource",
    },
    {
      name: "an object without its namespace",
      path: "/api/v1/pods/p1",
      code: 404,
      message: "the server could not find the requested resource",
    },
    {
      name: "a cluster-scoped object in a namespace",
      path: "/api/v1/namespaces/default/nodes/n1",
      code: 404,
      message: "the server could not find the requested resource",
    },
    {
      name: "a new pod without a namespace",
      method: "POST",
      path: "/api/v1/pods",
      body: "{}",
      code: 405,
      message: "the server does not allow this method on the requested resource",
    },
    {
      name: "deletion of the pods of all namespaces",
      method: "DELETE",
      path: "/api/v1/pods",
      code: 405,
      message: "the server does not allow this method on the requested resource",
    },
    {
      name: "a new custom object without a namespace",
      method: "POST",
      path: "/apis/test.io/v1/widgets",
      body: "{}",
      code: 404,
      message: "the server could not find the requested resource",
    },
    {
      name: "deletion of all namespaces",
      method: "DELETE",
      path: "/api/v1/namespaces",
      code: 405,
      message: "the server does not allow this method on the requested resource",
    },
    {
      name: "an empty body",
      method: "POST",
      path: pods,
      code: 400,
      message: "unexpected end of JSON input: the body is empty",
    },
    {
      name: "a body that is no object",
      method: "POST",
      path: pods,
      body: "[1]",
      code: 400,
      message: "couldn't get version/kind; the body is not an object",
    },
    {
      name: "a body that is no JSON",
      method: "POST",
      path: pods,
      body: "{a",
      code: 400,
      message: expect.stringContaining("json parse error") as string,
    },
    {
      name: "a body that is too deep",
      method: "POST",
      path: pods,
      body: "[".repeat(20_000),
      code: 400,
      message: "couldn't get version/kind; json parse error: exceeded max depth",
    },
    {
      name: "a body with too many fields",
      method: "POST",
      path: pods,
      body: `[${"0,".repeat(1_000_000)}0]`,
      code: 413,
      message: expect.stringContaining("the object has too many fields") as string,
    },
    {
      name: "protobuf of an unknown kind",
      method: "POST",
      path: pods,
      headers: { "content-type": "application/vnd.kubernetes.protobuf" },
      body: "k8s\u0000\n\u0007\n\u0002v9\u0012\u0001X\u0012\u0000",
      code: 415,
      message: expect.stringContaining("application/json, application/yaml") as string,
    },
    {
      name: "a body of another type",
      method: "POST",
      path: pods,
      headers: { "content-type": "text/plain" },
      body: "x",
      code: 415,
      message: expect.stringContaining("text/plain") as string,
    },
    {
      name: "broken protobuf",
      method: "POST",
      path: pods,
      headers: { "content-type": "application/vnd.kubernetes.protobuf" },
      body: "k8s\u0000~~~",
      code: 400,
      message: expect.any(String) as string,
    },
    {
      name: "protobuf of another message",
      method: "POST",
      path: pods,
      headers: { "content-type": "application/vnd.kubernetes.protobuf" },
      body: "x",
      code: 400,
      message: expect.stringContaining("protobuf") as string,
    },
    {
      name: "an unsupported response type",
      path: pods,
      headers: { accept: "text/html" },
      code: 406,
      message: "only the following media types are accepted: application/json, application/yaml",
    },
  ])("rejects $name", async ({ method = "GET", path, headers = {}, body, code, message }) => {
    const answer = await send(path, { method, headers, ...(body === undefined ? {} : { body }) });
    expect(answer.code).toBe(code);
    expect(json(answer.text)).toMatchObject({ kind: "Status", status: "Failure", code, message });
  });

  test("rejects a body that is too long", async () => {
    const body = JSON.stringify({
      metadata: { name: "x" },
      data: { a: "x".repeat(3 * 1024 * 1024) },
    });
    const { code, text } = await send("/api/v1/namespaces/default/configmaps", {
      method: "POST",
      body,
    });
    expect(code).toBe(413);
    expect(json(text)["message"]).toContain("limit is 3145728");
  });

  test("sends a rejection as YAML to clients that request YAML", async () => {
    const { headers, text } = await send(`${pods}/p2`, { headers: { accept: "application/yaml" } });
    expect(headers["content-type"]).toBe("application/yaml");
    expect(text).toContain("reason: NotFound\n");
  });

  test("sends a long list in chunks that form one document", async () => {
    const maps = Array.from({ length: 3 }, (_, index) => ({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: `long${String(index)}`, namespace: "other", uid: `u${String(index)}` },
      data: { text: "x".repeat(40_000) },
    }));
    await app.server.put("configmaps", ...maps);
    const path = "/api/v1/namespaces/other/configmaps";
    const { headers, text } = await send(path);
    expect(headers["content-type"]).toBe("application/json");
    expect(headers["transfer-encoding"]).toBe("chunked");
    expect(json(text)).toMatchObject({ kind: "ConfigMapList", items: maps });
    const yaml = await send(path, { headers: { accept: "application/yaml" } });
    expect(yaml.headers["content-type"]).toBe("application/yaml");
    expect(json(yaml.text)).toMatchObject({ items: maps });
    const one = await send(`${path}/long1`);
    expect(one.headers["transfer-encoding"]).toBe("chunked");
    expect(json(one.text)).toMatchObject(maps[1] ?? {});
  });

  test("the backup has each object on its own line", async () => {
    const { headers, text } = await send("/backup");
    expect(headers["content-type"]).toBe("application/x-ndjson");
    expect(text.split("\n").filter((line) => line.includes('"name":"p1"'))).toHaveLength(1);
  });

  test("sends metrics of Services, if any, to users who may get the path", async () => {
    expect((await send("/metrics")).code).toBe(404);
    let readMetrics = (): Promise<string> => Promise.resolve("up 1\n");
    const services = await startTestApp({ readMetrics: () => readMetrics() });
    try {
      const { headers, text } = await services.send("/metrics");
      expect(headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
      expect(text).toBe("up 1\n");
      const bob = { headers: { authorization: "Bearer t-bob" } };
      expect((await services.send("/metrics", bob)).code).toBe(403);
      readMetrics = () => Promise.reject(new Error("no socket"));
      expect((await services.send("/metrics")).code).toBe(500);
    } finally {
      await services.server.close();
    }
  });

  test("sends a watch as JSON only", async () => {
    const accept = "application/yaml";
    const { code, text } = await send(`${pods}?watch=1`, { headers: { accept } });
    expect(code).toBe(406);
    expect(text).toContain(
      "only the following media types are accepted: application/json;stream=watch",
    );
  });
});

test("rejects an object that is too long for the store", async () => {
  const data = { a: "\u0001".repeat(300_000) };
  const body = JSON.stringify({ metadata: { name: "long" }, data });
  const { code, text } = await send("/api/v1/namespaces/default/configmaps", {
    method: "POST",
    body,
  });
  expect([code, json(text)["message"]]).toEqual([413, expect.stringContaining("1572864")]);
});

test.each([
  { name: "a defect of a check refuses the object with a code", error: RangeError, want: 422 },
  { name: "another failure is an internal error", error: Error, want: 500 },
])("$name", async ({ error: Failure, want }) => {
  const validate = vi.spyOn(POD.strategy, "validate").mockImplementation(() => {
    throw new Failure("Invalid string length");
  });
  const pod = { metadata: { name: "odd" }, spec: { containers: [{ name: "c", image: "i" }] } };
  const headers = { "content-type": "application/json" };
  const sent = { method: "POST", headers, body: JSON.stringify(pod) };
  const { code, text } = await send("/api/v1/namespaces/default/pods", sent);
  validate.mockRestore();
  expect(code).toBe(want);
  expect(json(text)["message"]).toContain("Invalid string length");
  expect(text.includes("API_CHECK_FAILED")).toBe(want === 422);
});

test("sends a failure after the response head as the last event", async () => {
  const failing = await startTestApp({
    aggregator: {
      serve: (_request, response) => {
        response.write("begun\n");
        return Promise.reject(new Error("broken"));
      },
    },
  });
  const { code, text } = await failing.send("/api/v1/pods");
  const [begun, event] = text.split("\n");
  expect([code, begun]).toEqual([200, "begun"]);
  expect(json(event ?? "")).toMatchObject({
    type: "ERROR",
    object: { kind: "Status", code: 500, message: "Internal error occurred: broken" },
  });
  expect(failing.server.logged).toEqual([expect.stringContaining("broken")]);
  await failing.server.close();
});

test("a temporary rejection has a Retry-After header", async () => {
  const refusing = await startTestApp({
    aggregator: { serve: () => Promise.reject(tooManyRequests("busy")) },
  });
  const { code, headers } = await refusing.send("/api/v1/pods");
  expect([code, headers["retry-after"]]).toEqual([429, "1"]);
  await refusing.server.close();
});

test("only authenticated requests have a user", () => {
  expect(() => authenticatedUser({} as IncomingMessage)).toThrow("Unauthorized");
});
