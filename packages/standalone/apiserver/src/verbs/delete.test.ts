// SPDX-License-Identifier: Apache-2.0
// Preconditions, grace, finalizers and propagation of DELETE.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import { aConfigMap, aPod, widgetDefinition } from "../testing/objects.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const API = "/api/v1/namespaces/default";
const MAP = `${API}/configmaps/m`;
const POD = `${API}/pods/p`;

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
  await server.clock.advance(100_000);
});

afterEach(async () => {
  await server.close();
});

async function putMap(metadata: Fields = {}): Promise<void> {
  await server.put("configmaps", aConfigMap(metadata));
}

function deletionOf(resource: string, name: string): unknown {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers } =
    server.stored(resource, name)?.metadata ?? {};
  return { deletionTimestamp, deletionGracePeriodSeconds, finalizers };
}

describe("deletion of an object", () => {
  test("removes the object and names it in the response", async () => {
    await putMap();
    expect(await server.send("DELETE", MAP)).toEqual({
      code: 200,
      warnings: [],
      body: {
        kind: "Status",
        apiVersion: "v1",
        metadata: {},
        status: "Success",
        details: { name: "m", kind: "configmaps", uid: "u" },
      },
    });
    expect(server.stored("configmaps", "m")).toBeUndefined();
  });

  test("returns the revision of the deletion mark, also in another version", async () => {
    await server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
    await server.put("test.io/widgets", {
      apiVersion: "test.io/v1",
      kind: "Widget",
      metadata: { name: "w", namespace: "default", uid: "u", finalizers: ["test.io/x"] },
      spec: { size: 1 },
    });
    const path = "/apis/test.io/v2/namespaces/default/widgets/w";
    const { code, body } = await server.send("DELETE", path);
    const stored = server.stored("test.io/widgets", "w");
    expect([code, body["apiVersion"], stored?.apiVersion]).toEqual([
      200,
      "test.io/v2",
      "test.io/v1",
    ]);
    expect(body.metadata.resourceVersion).toBe(stored?.metadata.resourceVersion);
  });

  test("returns the group of the object", async () => {
    await server.put("coordination.k8s.io/leases", {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name: "l", namespace: "default" },
    });
    const path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    expect((await server.send("DELETE", path)).body.details).toEqual({
      name: "l",
      group: "coordination.k8s.io",
      kind: "leases",
      uid: "",
    });
  });

  test("returns objects of some kinds, with the version of the deletion", async () => {
    await server.put("serviceaccounts", {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name: "a", namespace: "default" },
    });
    const { code, body } = await server.send("DELETE", `${API}/serviceaccounts/a`);
    expect([code, body["kind"], body.metadata.resourceVersion]).toEqual([
      200,
      "ServiceAccount",
      String(server.deps.store.revision()),
    ]);
  });

  test("returns 404 on a second deletion", async () => {
    expect(await server.send("DELETE", MAP)).toMatchObject({
      code: 404,
      body: { message: 'configmaps "m" not found' },
    });
  });
});

describe("preconditions", () => {
  test.each([
    { name: "the uid", preconditions: { uid: "u" }, code: 200 },
    { name: "an empty uid", preconditions: { uid: "", resourceVersion: "" }, code: 200 },
    {
      name: "another uid",
      preconditions: { uid: "x" },
      code: 409,
      message:
        'Operation cannot be fulfilled on ConfigMap "m": the UID in the precondition (x) does not match the UID in record (u). The object might have been deleted and then recreated',
    },
    {
      name: "another version",
      preconditions: { resourceVersion: "1" },
      code: 409,
      message: expect.stringMatching(
        /^Operation cannot be fulfilled on ConfigMap "m": the ResourceVersion in the precondition \(1\) does not match the ResourceVersion in record \(\d+\). The object might have been modified$/,
      ) as string,
    },
  ])("$name: $code", async ({ preconditions, code, message }) => {
    await putMap();
    const answer = await server.send("DELETE", MAP, { body: { preconditions } });
    expect([answer.code, answer.body.message]).toEqual([code, message]);
    expect(server.stored("configmaps", "m") === undefined).toBe(code === 200);
  });

  test("accepts the current version", async () => {
    await putMap();
    const resourceVersion = server.stored("configmaps", "m")?.metadata.resourceVersion;
    const body = { preconditions: { resourceVersion } };
    expect((await server.send("DELETE", MAP, { body })).code).toBe(200);
  });
});

describe("grace period of a pod", () => {
  test.each([
    { name: "the default grace period", spec: {}, query: "", want: 30 },
    { name: "its own grace", spec: { terminationGracePeriodSeconds: 7 }, query: "", want: 7 },
    { name: "the requested grace", spec: {}, query: "?gracePeriodSeconds=90", want: 90 },
    {
      name: "one second for a negative grace period",
      spec: {},
      query: "?gracePeriodSeconds=-3",
      want: 1,
    },
  ])("on a node: $name", async ({ spec, query, want }) => {
    await server.put("pods", aPod("p", { spec, metadata: { generation: 4 } }));
    const { code, body } = await server.send("DELETE", `${POD}${query}`);
    expect([code, body.metadata]).toMatchObject([
      200,
      {
        deletionGracePeriodSeconds: want,
        deletionTimestamp: new Date(100_000 + want * 1000).toISOString().replace(".000", ""),
        generation: 5,
      },
    ]);
    expect(server.stored("pods", "p")).toEqual(body);
  });

  test.each([
    { name: "a pod without a node", spec: { nodeName: "" }, status: {}, query: "" },
    { name: "a pod that has ended", spec: {}, status: { phase: "Succeeded" }, query: "" },
    {
      name: "a pod with a grace period of 0",
      spec: {},
      status: {},
      query: "?gracePeriodSeconds=0",
    },
  ])(
    "$name is removed, and watchers receive the deletion mark first",
    async ({ spec, status, query }) => {
      await server.put("pods", aPod("p", { spec, status }));
      const before = server.deps.store.revision();
      const { code, body } = await server.send("DELETE", `${POD}${query}`);
      expect([code, body.metadata.deletionGracePeriodSeconds]).toEqual([200, 0]);
      const changes = server.deps.store.changesAfter({ bucket: "/pods" }, before, 9) ?? [];
      expect(changes.map(({ type }) => type)).toEqual(["MODIFIED", "DELETED"]);
      expect(body.metadata.resourceVersion).toBe(String(before + 2));
    },
  );

  test.each([
    {
      name: "a longer grace period changes nothing",
      query: "?gracePeriodSeconds=60",
      changed: false,
      want: 30,
    },
    {
      name: "an equal grace period changes nothing",
      query: "?gracePeriodSeconds=30",
      changed: false,
      want: 30,
    },
    { name: "a missing grace period changes nothing", query: "", changed: false, want: 30 },
    {
      name: "a shorter one counts from the first request",
      query: "?gracePeriodSeconds=10",
      changed: true,
      want: 10,
    },
  ])("can only be shortened: $name", async ({ query, changed, want }) => {
    await server.put("pods", aPod("p", { metadata: { generation: 1 } }));
    await server.send("DELETE", POD);
    await server.clock.advance(5000);
    const before = server.deps.store.revision();
    const { code, body } = await server.send("DELETE", `${POD}${query}`);
    expect([code, server.deps.store.revision() > before]).toEqual([200, changed]);
    expect(body.metadata).toMatchObject({
      deletionGracePeriodSeconds: want,
      deletionTimestamp: new Date(100_000 + want * 1000).toISOString().replace(".000", ""),
      generation: 2,
    });
  });

  test("a second request with grace 0 removes the pod", async () => {
    await server.put("pods", aPod("p"));
    await server.send("DELETE", POD);
    expect((await server.send("DELETE", `${POD}?gracePeriodSeconds=0`)).code).toBe(200);
    expect(server.stored("pods", "p")).toBeUndefined();
  });

  test("finalizers outlast the grace period", async () => {
    await server.put("pods", aPod("p", { metadata: { finalizers: ["t.io/a"] } }));
    await server.send("DELETE", POD);
    expect(deletionOf("pods", "p")).toMatchObject({ deletionGracePeriodSeconds: 30 });
    await server.send("DELETE", `${POD}?gracePeriodSeconds=0`);
    expect(deletionOf("pods", "p")).toMatchObject({
      deletionGracePeriodSeconds: 0,
      deletionTimestamp: "1970-01-01T00:01:40Z",
      finalizers: ["t.io/a"],
    });
    // Its grace is over: a third request brings the time no further forward.
    const before = server.deps.store.revision();
    await server.send("DELETE", POD);
    expect(server.deps.store.revision()).toBe(before);
  });

  test("a future deletion time is set to now when the grace period is 0", async () => {
    const deletionTimestamp = "1970-01-01T00:05:00Z";
    const metadata = { deletionTimestamp, deletionGracePeriodSeconds: 0, finalizers: ["t.io/a"] };
    await server.put("pods", aPod("p", { metadata }));
    await server.send("DELETE", POD);
    expect(deletionOf("pods", "p")).toMatchObject({ deletionTimestamp: "1970-01-01T00:01:40Z" });
  });

  test("the next request removes a terminating pod without a grace period", async () => {
    await server.put(
      "pods",
      aPod("p", { metadata: { deletionTimestamp: "1970-01-01T00:05:00Z" } }),
    );
    expect((await server.send("DELETE", POD)).code).toBe(200);
    expect(server.stored("pods", "p")).toBeUndefined();
  });
});

describe("finalizers", () => {
  test("an object is marked once, and its generation incremented once", async () => {
    await putMap({ finalizers: ["t.io/a"], generation: 2 });
    const marked = await server.send("DELETE", MAP);
    const metadata = {
      deletionTimestamp: "1970-01-01T00:01:40Z",
      deletionGracePeriodSeconds: 0,
      finalizers: ["t.io/a"],
      generation: 3,
    };
    expect(marked).toMatchObject({ code: 200, body: { kind: "ConfigMap", metadata } });
    await server.clock.advance(50_000);
    const before = server.deps.store.revision();
    const again = await server.send("DELETE", MAP);
    expect([again.body, server.deps.store.revision()]).toEqual([marked.body, before]);
  });

  test("an object without a generation gets no generation", async () => {
    await putMap({ finalizers: ["t.io/a"] });
    expect((await server.send("DELETE", MAP)).body.metadata.generation).toBeUndefined();
  });

  test("spec.finalizers retain a namespace in phase Terminating", async () => {
    const { code, body } = await server.send("DELETE", "/api/v1/namespaces/other");
    expect([code, body["status"], body.metadata.deletionTimestamp]).toEqual([
      200,
      { phase: "Terminating" },
      "1970-01-01T00:01:40Z",
    ]);
  });

  test.each(["default", "kube-public", "kube-system"])(
    "namespace %s is protected",
    async (name) => {
      await server.put("namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name } });
      expect(await server.send("DELETE", `/api/v1/namespaces/${name}`)).toMatchObject({
        code: 403,
        body: { message: `namespaces "${name}" is forbidden: this namespace may not be deleted` },
      });
    },
  );

  test("another kind may use the name of a protected namespace", async () => {
    await putMap({ name: "kube-system" });
    expect((await server.send("DELETE", `${API}/configmaps/kube-system`)).code).toBe(200);
  });
});

describe("propagation", () => {
  const FOREGROUND = "foregroundDeletion";

  test.each([
    { name: "Foreground", held: [], body: { propagationPolicy: "Foreground" }, want: [FOREGROUND] },
    { name: "Orphan", held: [], body: { propagationPolicy: "Orphan" }, want: ["orphan"] },
    {
      name: "orphanDependents",
      held: ["t.io/a"],
      body: { orphanDependents: true },
      want: ["t.io/a", "orphan"],
    },
    {
      name: "Background removes the orphan finalizer",
      held: ["t.io/a", "orphan"],
      body: { propagationPolicy: "Background" },
      want: ["t.io/a"],
    },
    {
      name: "Foreground removes the orphan finalizer",
      held: ["orphan"],
      body: { propagationPolicy: "Foreground" },
      want: [FOREGROUND],
    },
    {
      name: "Orphan removes the foreground finalizer",
      held: [FOREGROUND],
      body: { propagationPolicy: "Orphan" },
      want: ["orphan"],
    },
    {
      name: "no policy retains the finalizers of the object",
      held: ["orphan"],
      body: undefined,
      want: ["orphan"],
    },
    {
      name: "the same policy retains the order of finalizers",
      held: ["orphan", "t.io/a"],
      body: { propagationPolicy: "Orphan" },
      want: ["orphan", "t.io/a"],
    },
  ])("$name", async ({ held, body, want }) => {
    await putMap(held.length === 0 ? {} : { finalizers: held });
    const answer = await server.send("DELETE", MAP, { body });
    expect([answer.code, answer.body.metadata.finalizers]).toEqual([200, want]);
    expect(deletionOf("configmaps", "m")).toMatchObject({ finalizers: want });
  });

  test.each([
    { name: "Background", body: { propagationPolicy: "Background" } },
    { name: "orphanDependents: false", body: { orphanDependents: false } },
  ])("$name removes an object with only propagation finalizers", async ({ body }) => {
    await putMap({ finalizers: ["orphan"] });
    expect((await server.send("DELETE", MAP, { body })).code).toBe(200);
    expect(server.stored("configmaps", "m")).toBeUndefined();
  });

  test.each([
    {
      name: "is accepted if other finalizers block the deletion",
      finalizers: ["t.io/a"],
      want: 202,
    },
    { name: "deletes an object without finalizers", finalizers: [], want: 200 },
  ])("orphanDependents: false $name: $want", async ({ finalizers, want }) => {
    await putMap({ finalizers });
    const answer = await server.send("DELETE", MAP, { body: { orphanDependents: false } });
    expect(answer.code).toBe(want);
  });

  test("orphanDependents: true returns 200", async () => {
    await putMap();
    const answer = await server.send("DELETE", MAP, { body: { orphanDependents: true } });
    expect(answer.code).toBe(200);
  });

  test("events have no dependents", async () => {
    await server.put("events", {
      apiVersion: "v1",
      kind: "Event",
      metadata: { name: "e", namespace: "default" },
    });
    const body = { propagationPolicy: "Foreground" };
    await server.send("DELETE", `${API}/events/e`, { body });
    expect(server.stored("events", "e")).toBeUndefined();
  });
});
