// SPDX-License-Identifier: Apache-2.0
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { widgetDefinition } from "../testing/objects.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const API = "/api/v1/namespaces/default";
const MAPS = `${API}/configmaps`;
const WIDGETS = "/apis/test.io/v1/namespaces/default/widgets";
const RS = "/apis/apps/v1/namespaces/default/replicasets";
const DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions";

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
  await server.put(DEFINITIONS, widgetDefinition());
});

beforeEach(() => {
  server.webhooks.recorded.length = 0;
  server.webhooks.change = undefined;
  server.webhooks.onRequest = undefined;
});

afterAll(async () => {
  await server.close();
});

function aMap(name: string, change: object = {}) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, ...change }, data: { k: "v" } };
}

describe("metadata of a new object", () => {
  test("the server sets uid, time, namespace and version, and returns the stored object", async () => {
    await server.clock.advance(5000);
    const { code, body } = await server.send("POST", MAPS, { body: aMap("plain") });
    expect(code).toBe(201);
    expect(body).toEqual(server.stored("configmaps", "plain"));
    expect(body.metadata).toEqual({
      name: "plain",
      namespace: "default",
      uid: expect.stringMatching(/^uid-\d+$/) as string,
      creationTimestamp: "1970-01-01T00:00:05Z",
      resourceVersion: String(server.deps.store.revision()),
    });
  });

  test("system fields of the client are dropped", async () => {
    const { body } = await server.send("POST", MAPS, {
      body: aMap("wiped", {
        namespace: "default",
        uid: "mine",
        generation: 7,
        creationTimestamp: "2001-01-01T00:00:00Z",
        deletionTimestamp: "2001-01-01T00:00:00Z",
        deletionGracePeriodSeconds: 3,
      }),
    });
    expect(Object.keys(body.metadata).sort()).toEqual([
      "creationTimestamp",
      "name",
      "namespace",
      "resourceVersion",
      "uid",
    ]);
    expect([body.metadata.uid === "mine", body.metadata.creationTimestamp]).toEqual([
      false,
      "1970-01-01T00:00:05Z",
    ]);
  });

  test("webhooks cannot set system fields", async () => {
    server.webhooks.change = ({ metadata }) => {
      Object.assign(metadata, { uid: "theirs", namespace: "other", labels: { added: "yes" } });
    };
    const { body } = await server.send("POST", MAPS, { body: aMap("changed") });
    expect(body.metadata).toMatchObject({ namespace: "default", labels: { added: "yes" } });
    expect(body.metadata.uid).not.toBe("theirs");
  });

  test.each([
    { name: "begins at 1 for kinds with a generation", path: RS, kind: "ReplicaSet", want: 1 },
    { name: "is unset for other kinds", path: MAPS, kind: "ConfigMap", want: undefined },
  ])("generation: $name", async ({ path, kind, want }) => {
    const { body } = await server.send("POST", path, {
      body: {
        kind,
        metadata: { name: "generation" },
        spec: kind === "ReplicaSet" ? SPEC : undefined,
      },
    });
    expect(body.metadata.generation).toBe(want);
  });

  test("a cluster-scoped object has no namespace", async () => {
    const { code, body } = await server.send("POST", "/api/v1/nodes", {
      body: { metadata: { name: "n9", namespace: "default" } },
    });
    expect([code, body.metadata.namespace]).toEqual([201, undefined]);
  });
});

const SPEC = {
  selector: { matchLabels: { a: "b" } },
  template: {
    metadata: { labels: { a: "b" } },
    spec: { containers: [{ name: "c", image: "i" }] },
  },
};

describe("generateName", () => {
  test.each([
    { name: "a prefix gets five characters", prefix: "pre-", want: /^pre-x*\d+$/, length: 9 },
    {
      name: "a long prefix is cut to 58",
      prefix: "a".repeat(70),
      want: /^a{58}x*\d+$/,
      length: 63,
    },
  ])("$name", async ({ prefix, want, length }) => {
    const { body } = await server.send("POST", MAPS, {
      body: { metadata: { generateName: prefix } },
    });
    expect(body.metadata.name).toMatch(want);
    expect(body.metadata.name).toHaveLength(length);
    expect(server.stored("configmaps", body.metadata.name)).toEqual(body);
  });

  test("a specified name takes precedence", async () => {
    const { body } = await server.send("POST", MAPS, {
      body: { metadata: { name: "named", generateName: "pre-" } },
    });
    expect(body.metadata).toMatchObject({ name: "named", generateName: "pre-" });
  });
});

describe("status of a new object", () => {
  test.each([
    {
      name: "the status of a client is dropped",
      path: RS,
      body: { metadata: { name: "status" }, spec: SPEC, status: { replicas: 4 } },
      want: undefined,
    },
    {
      name: "nodes register with a status",
      path: "/api/v1/nodes",
      body: { metadata: { name: "status" }, status: { phase: "Running" } },
      want: { phase: "Running" },
    },
    {
      name: "some kinds start with a default status",
      path: `${API}/pods`,
      body: {
        metadata: { name: "status" },
        spec: { containers: [{ name: "c", image: "i" }] },
        status: { phase: "Running" },
      },
      want: { phase: "Pending", qosClass: "BestEffort" },
    },
    {
      name: "a custom resource with a status subresource loses it",
      path: WIDGETS,
      body: {
        apiVersion: "test.io/v1",
        kind: "Widget",
        metadata: { name: "status" },
        status: { phase: "Ready" },
      },
      want: undefined,
    },
  ])("$name", async ({ path, body, want }) => {
    expect((await server.send("POST", path, { body })).body["status"]).toEqual(want);
  });
});

test("applies defaults before and after webhooks", async () => {
  server.webhooks.change = (object) => {
    object["spec"] = { size: 1 };
  };
  const { body } = await server.send("POST", WIDGETS, {
    body: { apiVersion: "test.io/v1", kind: "Widget", metadata: { name: "d" }, spec: {} },
  });
  expect(body["spec"]).toEqual({ size: 1, color: "red" });
  expect(server.webhooks.recorded.map(({ request }) => request.object?.["spec"])).toEqual([
    { color: "red" },
    { size: 1, color: "red" },
  ]);
});

test("webhooks receive the request and the object to be stored", async () => {
  await server.send("POST", `${MAPS}?fieldManager=me&dryRun=All`, {
    body: { metadata: { generateName: "seen-" } },
  });
  const [mutated, validated] = server.webhooks.recorded;
  expect(mutated).toMatchObject({
    phase: "mutate",
    request: {
      operation: "CREATE",
      subresource: "",
      namespace: "default",
      name: "",
      dryRun: true,
      oldObject: undefined,
      user: { name: "admin" },
      options: { kind: "CreateOptions", dryRun: ["All"], fieldManager: "me" },
    },
  });
  expect(mutated?.request.object?.metadata).toEqual({
    generateName: "seen-",
    name: "",
    namespace: "default",
  });
  expect(validated?.phase).toBe("validate");
  expect(validated?.request.object?.metadata.name).toMatch(/^seen-/);
});

test("a dry run returns the complete object and stores nothing", async () => {
  const before = server.deps.store.revision();
  const { code, body } = await server.send("POST", `${MAPS}?dryRun=All`, { body: aMap("dry") });
  expect([code, body.metadata.name, body.metadata.resourceVersion]).toEqual([
    201,
    "dry",
    undefined,
  ]);
  expect([server.stored("configmaps", "dry"), server.deps.store.revision()]).toEqual([
    undefined,
    before,
  ]);
});

test.each([
  { name: "a large object", length: 16 * 1024 + 1, want: true },
  { name: "a small object", length: 16, want: false },
])("$name waits in the fair queue: $want", async ({ length, want }) => {
  const waited: string[] = [];
  const { fairQueue } = server.deps;
  const take = fairQueue.waitForTurn.bind(fairQueue);
  fairQueue.waitForTurn = (user) => {
    waited.push(user.name);
    return take(user);
  };
  const name = `length-${String(length)}`;
  await server.send("POST", MAPS, {
    body: { metadata: { name }, data: { k: "v".repeat(length) } },
  });
  fairQueue.waitForTurn = take;
  // Once before each step: the body, its fields, admission twice, and the write.
  expect(waited).toEqual(want ? new Array(6).fill("admin") : []);
});
