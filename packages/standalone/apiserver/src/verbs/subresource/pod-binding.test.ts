// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import { aPod } from "../../testing/objects.ts";
import { type Answer, type TestServer, startTestServer } from "../../testing/test-server.ts";

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
  await server.clock.advance(60_000);
});

afterEach(async () => {
  await server.close();
});

const POD = "/api/v1/namespaces/default/pods/p";
const NODE = { target: { kind: "Node", name: "n1" } };

function bind(body: Fields, query = ""): Promise<Answer> {
  return server.send("POST", `${POD}/binding${query}`, { body });
}

const UNBOUND = { spec: { nodeName: "" } };

describe("binding", () => {
  test("assigns the pod to a node and sets the PodScheduled condition", async () => {
    await server.put("pods", aPod("p", UNBOUND));
    const { code, body } = await bind(NODE);
    expect([code, body]).toEqual([
      201,
      { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 },
    ]);
    expect(server.stored("pods", "p")).toMatchObject({
      spec: { nodeName: "n1", containers: [{ name: "c" }] },
      status: {
        phase: "Running",
        conditions: [
          { type: "Ready", status: "True" },
          {
            type: "PodScheduled",
            status: "True",
            lastProbeTime: null,
            lastTransitionTime: "1970-01-01T00:01:00Z",
          },
        ],
      },
    });
  });

  test("replaces a false PodScheduled condition", async () => {
    const conditions = [{ type: "PodScheduled", status: "False" }];
    await server.put("pods", aPod("p", { ...UNBOUND, status: { conditions } }));
    await bind(NODE);
    expect(server.stored("pods", "p")?.["status"]).toMatchObject({
      conditions: [{ type: "PodScheduled", status: "True" }],
    });
    expect(
      (server.stored("pods", "p")?.["status"] as { conditions: object[] }).conditions,
    ).toHaveLength(1);
  });

  test("of a bound pod fails with 409 and does not move the pod", async () => {
    await server.put("pods", aPod("p", { spec: { nodeName: "n9" } }));
    expect(await bind(NODE)).toMatchObject({
      code: 409,
      body: {
        message:
          'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n9"',
        details: { name: "p", kind: "pods/binding" },
      },
    });
  });

  test.each([
    { name: "no target", body: {}, code: 400, message: "Binding target.name: Required value" },
    { name: "an unknown pod", body: NODE, code: 404, message: 'pods "p" not found' },
  ])("$name: $code", async ({ body, code, message }) => {
    const answer = await bind(body);
    expect([answer.code, answer.body.message]).toEqual([code, message]);
  });

  test("a dry run binds nothing", async () => {
    await server.put("pods", aPod("p", UNBOUND));
    expect((await bind(NODE, "?dryRun=All")).code).toBe(201);
    expect(server.stored("pods", "p")?.["spec"]).toMatchObject({ nodeName: "" });
  });
});

describe("admission of the body", () => {
  const kind = { group: "", version: "v1", kind: "Binding" };

  test.each([
    {
      name: "an incomplete body gets its name, kind and version",
      body: NODE,
      want: { apiVersion: "v1", kind: "Binding", metadata: { name: "p" }, ...NODE },
    },
    {
      name: "a name and a version in the body are retained",
      body: {
        ...NODE,
        apiVersion: "v9",
        kind: "Other",
        metadata: { name: "x", labels: { a: "b" } },
      },
      want: {
        apiVersion: "v9",
        kind: "Binding",
        metadata: { name: "x", labels: { a: "b" } },
        ...NODE,
      },
    },
  ])("$name", async ({ body, want }) => {
    await server.put("pods", aPod("p", UNBOUND));
    await bind(body, "?fieldManager=me");
    const request = {
      bodyKind: kind,
      subresource: "binding",
      operation: "CREATE",
      namespace: "default",
      name: "p",
      oldObject: undefined,
      options: { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1", fieldManager: "me" },
      user: { name: "admin" },
      dryRun: false,
    };
    expect(server.webhooks.recorded).toMatchObject([
      { phase: "mutate", request },
      { phase: "validate", request },
    ]);
    expect(server.webhooks.recorded.map(({ request: { object } }) => object)).toEqual([want, want]);
  });

  test("uses the body that webhooks return", async () => {
    await server.put("pods", aPod("p", UNBOUND));
    server.webhooks.change = (object) => {
      object["target"] = { kind: "Node", name: "n7" };
    };
    await bind(NODE);
    expect(server.stored("pods", "p")?.["spec"]).toMatchObject({ nodeName: "n7" });
  });
});

describe("port-forward", () => {
  test.each([
    {
      name: "a pod",
      pod: true,
      want: {
        code: 501,
        body: {
          reason: "NotImplemented",
          message: "pods/portforward is not supported",
          details: { name: "p", kind: "pods" },
        },
      },
    },
    {
      name: "an unknown pod",
      pod: false,
      want: { code: 404, body: { message: 'pods "p" not found' } },
    },
  ])("of $name fails with $want.code", async ({ pod, want }) => {
    if (pod) await server.put("pods", aPod("p"));
    expect(await server.send("GET", `${POD}/portforward`)).toMatchObject(want);
    const request = {
      operation: "CONNECT",
      subresource: "portforward",
      options: null,
      object: { apiVersion: "v1", kind: "PodPortForwardOptions", metadata: { name: "p" } },
    };
    expect(server.webhooks.recorded).toMatchObject([
      { phase: "mutate", request },
      { phase: "validate", request },
    ]);
  });
});

describe("finalize of a namespace", () => {
  const PATH = "/api/v1/namespaces/other/finalize";

  test("replaces spec.finalizers and preserves the status", async () => {
    const body = {
      metadata: { name: "other", labels: { a: "b" } },
      spec: { finalizers: ["t.io/a"] },
      status: { phase: "X" },
    };
    const answer = await server.send("PUT", PATH, { body });
    expect([answer.code, answer.body]).toMatchObject([
      200,
      {
        metadata: { labels: { a: "b" } },
        spec: { finalizers: ["t.io/a"] },
        status: { phase: "Active" },
      },
    ]);
  });

  test("removes a terminating namespace without remaining finalizers", async () => {
    await server.send("DELETE", "/api/v1/namespaces/other");
    const body = { metadata: { name: "other" }, spec: {} };
    expect((await server.send("PUT", PATH, { body })).code).toBe(200);
    expect(server.stored("namespaces", "other", "")).toBeUndefined();
  });

  test.each([
    { name: "another name", metadata: { name: "x" }, code: 400 },
    { name: "another uid", metadata: { name: "other", uid: "x" }, code: 409 },
    { name: "an old version", metadata: { name: "other", resourceVersion: "1" }, code: 409 },
  ])("$name: $code", async ({ metadata, code }) => {
    const answer = await server.send("PUT", PATH, { body: { metadata, spec: {} } });
    expect([answer.code, server.stored("namespaces", "other", "")?.["spec"]]).toEqual([
      code,
      { finalizers: ["kubernetes"] },
    ]);
  });

  test.each([
    {
      name: "a request with a version fails at the first conflict",
      versioned: true,
      code: 409,
      attempts: 1,
    },
    { name: "a request without a version is retried", versioned: false, code: 200, attempts: 2 },
  ])("a race: $name", async ({ versioned, code, attempts }) => {
    const namespace = server.stored("namespaces", "other", "");
    const resourceVersion = namespace?.metadata.resourceVersion ?? "";
    let count = 0;
    server.webhooks.onRequest = async ({ phase }) => {
      if (phase !== "validate" || namespace === undefined) return;
      count += 1;
      if (count === 1) await server.put("namespaces", namespace);
    };
    const metadata = { name: "other", ...(versioned ? { resourceVersion } : {}) };
    const answer = await server.send("PUT", PATH, { body: { metadata, spec: {} } });
    expect([answer.code, count]).toEqual([code, attempts]);
  });
});
