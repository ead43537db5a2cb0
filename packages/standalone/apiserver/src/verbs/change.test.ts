// SPDX-License-Identifier: Apache-2.0
// What update, patch and subresources have in common: which part changes, races, generation, webhooks.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Fields, without } from "../objects/json.ts";
import { aConfigMap, widgetDefinition } from "../testing/objects.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const NODES = "/api/v1/nodes";
const WIDGETS = "/apis/test.io/v1/namespaces/default/widgets";
const WIDGET = "test.io/widgets";

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

async function putWidget(metadata: Fields = {}): Promise<void> {
  await server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
  await server.put(WIDGET, {
    apiVersion: "test.io/v1",
    kind: "Widget",
    metadata: { name: "w", namespace: "default", uid: "u", generation: 3, ...metadata },
    spec: { size: 1, color: "red" },
    status: { phase: "Old" },
  });
}

describe("fields that a write may change", () => {
  test.each([
    {
      name: "a main write does not change the status",
      path: `${WIDGETS}/w`,
      want: { labels: { l: "1" }, spec: { size: 2, color: "red" }, status: { phase: "Old" } },
    },
    {
      name: "a status write of a custom resource changes the status only",
      path: `${WIDGETS}/w/status`,
      want: { spec: { size: 1, color: "red" }, status: { phase: "New" } },
    },
  ])("custom resources: $name", async ({ path, want }) => {
    await putWidget();
    const body = { metadata: { labels: { l: "1" } }, spec: { size: 2 }, status: { phase: "New" } };
    const answer = await server.send("PATCH", path, { body });
    const { metadata, spec, status } = answer.body;
    expect({ ...(metadata.labels && { labels: metadata.labels }), spec, status }).toEqual(want);
    expect(server.stored(WIDGET, "w")).toEqual(answer.body);
  });

  test("a status write of a built-in kind also changes metadata", async () => {
    await server.put("nodes", {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "n" },
      spec: { podCIDR: "10.0.0.0/24" },
      status: { phase: "Old" },
    });
    const body = {
      metadata: { labels: { l: "1" } },
      spec: { podCIDR: "10.0.1.0/24" },
      status: { phase: "New" },
    };
    const answer = await server.send("PATCH", `${NODES}/n/status`, { body });
    expect(answer.body).toMatchObject({
      metadata: { labels: { l: "1" } },
      spec: { podCIDR: "10.0.0.0/24" },
      status: { phase: "New" },
    });
  });

  test("a missing status is removed by a status write and retained by a main write", async () => {
    await putWidget();
    const { body } = await server.send("GET", `${WIDGETS}/w`);
    const rest = without(body, "status");
    const main = await server.send("PUT", `${WIDGETS}/w`, { body: { ...rest, spec: { size: 5 } } });
    expect(main.body["status"]).toEqual({ phase: "Old" });
    const own = { ...rest, metadata: main.body.metadata };
    const status = await server.send("PUT", `${WIDGETS}/w/status`, { body: own });
    expect([status.code, status.body["status"]]).toEqual([200, undefined]);
  });

  test("a main write does not add a status", async () => {
    await putWidget();
    await server.send("PATCH", `${WIDGETS}/w/status`, { body: { status: null } });
    const body = { spec: { size: 8 }, status: { phase: "Made" } };
    expect((await server.send("PATCH", `${WIDGETS}/w`, { body })).body["status"]).toBeUndefined();
  });

  test("system fields stay unchanged", async () => {
    await putMap({ creationTimestamp: "1970-01-01T00:00:00Z" });
    const body = {
      metadata: {
        generation: 9,
        creationTimestamp: "2001-01-01T00:00:00Z",
        deletionTimestamp: "2001-01-01T00:00:00Z",
        deletionGracePeriodSeconds: 3,
      },
      data: { k: "2" },
    };
    const { code, body: changed } = await server.send("PATCH", `${MAPS}/m`, { body });
    expect([code, changed.metadata]).toEqual([
      200,
      {
        name: "m",
        namespace: "default",
        uid: "u",
        creationTimestamp: "1970-01-01T00:00:00Z",
        resourceVersion: String(server.deps.store.revision()),
      },
    ]);
  });

  test("webhooks cannot change system fields, the kind or the version", async () => {
    await putMap();
    server.webhooks.change = (object) => {
      Object.assign(object.metadata, { uid: "theirs", labels: { l: "1" } });
    };
    const { body } = await server.send("PATCH", `${MAPS}/m`, { body: { data: { k: "2" } } });
    expect(body).toMatchObject({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { uid: "u", labels: { l: "1" } },
    });
  });
});

describe("generation", () => {
  test.each([
    {
      name: "increases with a change of the spec",
      path: "",
      body: { spec: { size: 2 } },
      want: 4,
    },
    {
      name: "does not increase with a change of labels",
      path: "",
      body: { metadata: { labels: { a: "b" } } },
      want: 3,
    },
    {
      name: "does not increase with a change of the status",
      path: "/status",
      body: { status: { phase: "N" } },
      want: 3,
    },
  ])("$name", async ({ path, body, want }) => {
    await putWidget();
    const answer = await server.send("PATCH", `${WIDGETS}/w${path}`, { body });
    expect(answer.body.metadata.generation).toBe(want);
  });

  test("begins at 1 for an object without a generation", async () => {
    await putWidget({ generation: undefined });
    const answer = await server.send("PATCH", `${WIDGETS}/w`, { body: { spec: { size: 2 } } });
    expect(answer.body.metadata.generation).toBe(1);
  });

  test("is not added to kinds without a generation", async () => {
    await putMap();
    const { body } = await server.send("PATCH", `${MAPS}/m`, { body: { data: { k: "2" } } });
    expect(body.metadata.generation).toBeUndefined();
  });
});

describe("a write without changes", () => {
  test.each([
    { name: "an equal patch", body: { data: { k: "1" } } },
    {
      name: "a change of managed fields only",
      body: { metadata: { managedFields: [{ manager: "x" }] } },
    },
  ])("$name preserves the revision and writes nothing", async ({ body }) => {
    await putMap();
    const before = server.deps.store.revision();
    const answer = await server.send("PATCH", `${MAPS}/m`, { body });
    expect([
      answer.code,
      answer.body.metadata.resourceVersion,
      server.deps.store.revision(),
    ]).toEqual([200, String(before), before]);
  });
});

describe("races", () => {
  /** Changes the object between the read and the write of the first `count` attempts. */
  function disturb(count: number): () => number {
    let attempts = 0;
    server.webhooks.onRequest = async ({ phase }) => {
      if (phase !== "validate") return;
      attempts += 1;
      if (attempts <= count) await putMap({ labels: { attempt: String(attempts) } });
    };
    return () => attempts;
  }

  test.each([1, 3])("a patch without a version is retried after %i lost races", async (count) => {
    await putMap();
    const attempts = disturb(count);
    const { code, body } = await server.send("PATCH", `${MAPS}/m`, {
      body: { data: { k: "2" } },
    });
    expect([code, attempts(), body.metadata.labels, body["data"]]).toEqual([
      200,
      count + 1,
      { attempt: String(count) },
      { k: "2" },
    ]);
  });

  test("a PUT with an outdated version fails with 409", async () => {
    await putMap();
    const { body } = await server.send("GET", `${MAPS}/m`);
    const attempts = disturb(1);
    const answer = await server.send("PUT", `${MAPS}/m`, { body: { ...body, data: { k: "2" } } });
    expect(answer).toMatchObject({
      code: 409,
      body: {
        reason: "Conflict",
        message:
          'Operation cannot be fulfilled on configmaps "m": the object has been modified; please apply your changes to the latest version and try again',
        details: { name: "m", kind: "configmaps" },
      },
    });
    expect(attempts()).toBe(1);
  });

  test("a patch with an outdated version fails with 409", async () => {
    await putMap();
    const resourceVersion = server.stored("configmaps", "m")?.metadata.resourceVersion;
    const attempts = disturb(1);
    const answer = await server.send("PATCH", `${MAPS}/m`, {
      body: { metadata: { resourceVersion }, data: { k: "2" } },
    });
    expect([answer.code, answer.body.reason, attempts()]).toEqual([409, "Conflict", 1]);
    expect(server.stored("configmaps", "m")?.["data"]).toEqual({ k: "1" });
  });

  test("a finalize request with an outdated version fails with 409", async () => {
    const path = "/api/v1/namespaces/default";
    const { body } = await server.send("GET", path);
    await server.send("PATCH", path, { body: { metadata: { labels: { a: "b" } } } });
    const answer = await server.send("PUT", `${path}/finalize`, {
      body: { ...body, spec: { finalizers: [] } },
    });
    expect([answer.code, answer.body.reason]).toEqual([409, "Conflict"]);
  });

  test("a patch that always loses fails with 409", async () => {
    await putMap();
    disturb(Infinity);
    const answer = await server.send("PATCH", `${MAPS}/m`, { body: { data: { k: "2" } } });
    expect([answer.code, server.stored("configmaps", "m")?.["data"]]).toEqual([409, { k: "1" }]);
  });

  test("an object that is deleted meanwhile returns 404", async () => {
    await putMap();
    server.webhooks.onRequest = async ({ phase }) => {
      if (phase === "validate") await server.send("DELETE", `${MAPS}/m`);
    };
    const answer = await server.send("PATCH", `${MAPS}/m`, { body: { data: { k: "2" } } });
    expect(answer).toMatchObject({ code: 404, body: { message: 'configmaps "m" not found' } });
  });

  test("writers that lost a race proceed one after the other", async () => {
    await putMap({ labels: {} });
    const answers = await Promise.all(
      ["a", "b", "c", "d"].map((key) =>
        server.send("PATCH", `${MAPS}/m`, { body: { data: { [key]: "1" } } }),
      ),
    );
    expect(answers.map(({ code }) => code)).toEqual([200, 200, 200, 200]);
    expect(server.stored("configmaps", "m")?.["data"]).toEqual({
      k: "1",
      a: "1",
      b: "1",
      c: "1",
      d: "1",
    });
  });
});

describe("finalizers of an object that is being deleted", () => {
  const DELETING = { deletionTimestamp: "1970-01-01T00:00:00Z", deletionGracePeriodSeconds: 0 };

  test.each([
    { name: "the last one is removed", held: ["t.io/a"], finalizers: null, gone: true },
    {
      name: "one of two is removed",
      held: ["t.io/a", "t.io/b"],
      finalizers: ["t.io/b"],
      gone: false,
    },
  ])("$name: deleted $gone", async ({ held, finalizers, gone }) => {
    await putMap({ ...DELETING, finalizers: held });
    const answer = await server.send("PATCH", `${MAPS}/m`, { body: { metadata: { finalizers } } });
    expect([answer.code, server.stored("configmaps", "m") === undefined]).toEqual([200, gone]);
  });

  test.each([
    { name: "an unexpired grace period", metadata: { ...DELETING, deletionGracePeriodSeconds: 5 } },
    { name: "a missing deletion timestamp", metadata: {} },
  ])("$name retains the object", async ({ metadata }) => {
    await putMap({ ...metadata, finalizers: ["t.io/a"] });
    const answer = await server.send("PATCH", `${MAPS}/m`, {
      body: { metadata: { finalizers: null } },
    });
    expect([answer.code, server.stored("configmaps", "m")]).toEqual([200, answer.body]);
    expect(answer.body.metadata.finalizers).toBeUndefined();
  });

  test("spec.finalizers retain a namespace", async () => {
    await server.put("namespaces", {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: "held", deletionTimestamp: "1970-01-01T00:00:00Z", finalizers: ["t.io/a"] },
      spec: { finalizers: ["kubernetes"] },
    });
    const body = { metadata: { finalizers: null } };
    const answer = await server.send("PATCH", "/api/v1/namespaces/held", { body });
    expect(answer.code).toBe(200);
    expect(server.stored("namespaces", "held", "")).toEqual(answer.body);
    expect(answer.body.metadata.finalizers).toBeUndefined();
  });

  test("any write removes a terminating object without finalizers", async () => {
    await putMap({ deletionTimestamp: "1970-01-01T00:00:00Z" });
    const answer = await server.send("PATCH", `${MAPS}/m`, { body: {} });
    expect([answer.code, server.stored("configmaps", "m")]).toEqual([200, undefined]);
  });

  test("new finalizers are rejected", async () => {
    await putMap({ ...DELETING, finalizers: ["t.io/a"] });
    const body = { metadata: { finalizers: ["t.io/a", "t.io/b"] } };
    expect(await server.send("PATCH", `${MAPS}/m`, { body })).toMatchObject({
      code: 422,
      body: { details: { causes: [{ field: "metadata.finalizers" }] } },
    });
  });

  test("watchers receive the last stored state as DELETED, with a new version", async () => {
    await putMap({ ...DELETING, finalizers: ["t.io/a"] });
    const before = server.deps.store.revision();
    await server.send("PATCH", `${MAPS}/m`, { body: { metadata: { finalizers: null } } });
    const [change] = server.deps.store.changesAfter({ bucket: "/configmaps" }, before, 9) ?? [];
    expect([change?.type, change?.current.view().metadata]).toEqual([
      "DELETED",
      expect.objectContaining({
        finalizers: ["t.io/a"],
        resourceVersion: String(before + 1),
      }),
    ]);
  });
});

test("a dry run returns the change and stores nothing", async () => {
  await putMap();
  const before = server.deps.store.revision();
  const answer = await server.send("PATCH", `${MAPS}/m?dryRun=All`, { body: { data: { k: "2" } } });
  expect([answer.code, answer.body["data"], answer.body.metadata.resourceVersion]).toEqual([
    200,
    { k: "2" },
    String(before),
  ]);
  expect(server.deps.store.revision()).toBe(before);
});
