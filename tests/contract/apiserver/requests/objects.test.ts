// SPDX-License-Identifier: Apache-2.0
// The API server's requests compared with Kubernetes, over real TLS.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, startHarness, widgetDefinition } from "../harness.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const PODS = "/api/v1/namespaces/default/pods";
const WIDGETS = "/apis/widgets.test/v1/namespaces/default/widgets";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
  await api.post(
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    widgetDefinition("widgets.test"),
  );
});

afterAll(async () => {
  await api.close();
});

function map(name: string, data: Record<string, string> = { a: "1" }) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data };
}

function pod(name: string, spec: Record<string, unknown> = {}) {
  const containers = [{ name: "c", image: "i:1" }];
  return { apiVersion: "v1", kind: "Pod", metadata: { name }, spec: { containers, ...spec } };
}

test("a write without changes preserves the resourceVersion and notifies no watcher", async () => {
  const { body: made } = await api.post(MAPS, map("noop"));
  await using watch = await api.watch(
    `${MAPS}?watch=1&resourceVersion=${made.metadata.resourceVersion}`,
  );
  const { body: patched } = await api.patch(`${MAPS}/noop`, { data: { a: "1" } });
  expect(patched.metadata.resourceVersion).toBe(made.metadata.resourceVersion);
  await api.patch(`${MAPS}/noop`, { data: { a: "2" } });
  const [event] = await watch.first(1);
  expect(event).toMatchObject({ type: "MODIFIED", object: { data: { a: "2" } } });
});

test("a watch from a revision delivers exactly the later events in order", async () => {
  const { body: start } = await api.get(MAPS);
  await api.post(MAPS, map("w1"));
  await api.patch(`${MAPS}/w1`, { data: { a: "2" } });
  await api.delete(`${MAPS}/w1`);
  await using watch = await api.watch(
    `${MAPS}?watch=1&resourceVersion=${start.metadata.resourceVersion}&fieldSelector=metadata.name=w1`,
  );
  const events = await watch.first(3);
  expect(events.map(({ type }) => type)).toEqual(["ADDED", "MODIFIED", "DELETED"]);
  const revisions = events.map(({ object }) => Number(object.metadata.resourceVersion));
  expect(revisions).toEqual([...revisions].sort((left, right) => left - right));
  expect(events[2]?.object.data).toEqual({ a: "2" });
});

test("an object that stops matching a selector is DELETED, a new match is ADDED", async () => {
  await using watch = await api.watch(`${MAPS}?watch=1&labelSelector=picked`);
  await api.post(MAPS, { ...map("sel"), metadata: { name: "sel", labels: { picked: "1" } } });
  await api.patch(`${MAPS}/sel`, { metadata: { labels: { picked: null } } });
  await api.patch(`${MAPS}/sel`, { metadata: { labels: { picked: "2" } } });
  const events = await watch.first(3);
  expect(events.map(({ type, object }) => [type, object.metadata.labels?.["picked"]])).toEqual([
    ["ADDED", "1"],
    ["DELETED", "1"],
    ["ADDED", "2"],
  ]);
});

test("a stale update is a conflict", async () => {
  const { body: made } = await api.post(MAPS, map("stale"));
  await api.patch(`${MAPS}/stale`, { data: { b: "1" } });
  const { code, body } = await api.put(`${MAPS}/stale`, made);
  expect([code, body.reason]).toEqual([409, "Conflict"]);
});

test("parallel patches lose no change", async () => {
  await api.post(MAPS, map("race", {}));
  const keys = Array.from({ length: 32 }, (_, index) => `k${String(index)}`);
  const answers = await Promise.all(
    keys.map((key) => api.patch(`${MAPS}/race`, { data: { [key]: "1" } })),
  );
  expect(answers.map(({ code }) => code)).toEqual(keys.map(() => 200));
  expect(Object.keys((await api.get(`${MAPS}/race`)).body.data ?? {})).toHaveLength(keys.length);
});

test("a pod on a node is deleted in two steps", async () => {
  await api.post(PODS, pod("graceful"));
  const target = { kind: "Node", name: "n1" };
  expect((await api.post(`${PODS}/graceful/binding`, { target })).code).toBe(201);
  expect((await api.post(`${PODS}/graceful/binding`, { target })).code).toBe(409);
  const { body: marked } = await api.delete(`${PODS}/graceful`);
  expect(marked.metadata).toMatchObject({ deletionGracePeriodSeconds: 30 });
  expect((await api.get(`${PODS}/graceful`)).code).toBe(200);
  await api.delete(`${PODS}/graceful`, {
    gracePeriodSeconds: 0,
    preconditions: { uid: marked.metadata.uid },
  });
  expect((await api.get(`${PODS}/graceful`)).code).toBe(404);
});

test("a pod without a node is deleted immediately", async () => {
  await api.post(PODS, pod("loose"));
  await api.delete(`${PODS}/loose`);
  expect((await api.get(`${PODS}/loose`)).code).toBe(404);
});

test("a pod's annotations can be written through its status", async () => {
  await api.post(PODS, pod("annotated"));
  const { body } = await api.patch(`${PODS}/annotated/status`, {
    metadata: { annotations: { "k8s.v1.cni.cncf.io/network-status": "[]" } },
    spec: { nodeName: "other" },
  });
  expect(body.metadata.annotations).toEqual({ "k8s.v1.cni.cncf.io/network-status": "[]" });
  expect(body.spec["nodeName"]).toBeUndefined();
});

test("status and spec of a custom resource are written separately", async () => {
  const widget = (spec: unknown, status?: unknown) => ({
    apiVersion: "widgets.test/v1",
    kind: "Widget",
    metadata: { name: "apart" },
    spec,
    status,
  });
  const { body: made } = await api.post(WIDGETS, widget({ size: "s", bogus: 1 }, { phase: "X" }));
  expect([made.spec, made.status, made.metadata.generation]).toEqual([{ size: "s" }, undefined, 1]);
  const { body: up } = await api.patch(`${WIDGETS}/apart/status`, {
    spec: { size: "no" },
    status: { phase: "Up" },
  });
  expect([up.spec["size"], up.status?.["phase"], up.metadata.generation]).toEqual(["s", "Up", 1]);
  const { body: grown } = await api.patch(`${WIDGETS}/apart`, { spec: { size: "l" }, status: {} });
  expect([grown.spec["size"], grown.status?.["phase"], grown.metadata.generation]).toEqual([
    "l",
    "Up",
    2,
  ]);
});

test("rejects a custom resource that violates its schema and names the field", async () => {
  const { code, body } = await api.post(WIDGETS, {
    apiVersion: "widgets.test/v1",
    kind: "Widget",
    metadata: { name: "bad" },
    spec: { size: 5 },
  });
  expect([code, body.details.causes[0]?.field]).toEqual([422, "spec.size"]);
});

test("a finalizer preserves an object until it is removed", async () => {
  await api.post(MAPS, { ...map("held"), metadata: { name: "held", finalizers: ["test.io/f"] } });
  expect((await api.delete(`${MAPS}/held`)).body.metadata.deletionTimestamp).toBeDefined();
  const added = await api.patch(`${MAPS}/held`, {
    metadata: { finalizers: ["test.io/f", "test.io/g"] },
  });
  expect(added.code).toBe(422);
  await api.patch(`${MAPS}/held`, { metadata: { finalizers: null } });
  expect((await api.get(`${MAPS}/held`)).code).toBe(404);
});

test("the pages of a list are one snapshot", async () => {
  const path = "/api/v1/namespaces/kube-public/configmaps";
  for (const name of ["a", "b", "d"]) {
    await api.post(path, map(name));
  }
  const { body: first } = await api.get(`${path}?limit=2`);
  await api.post(path, map("c"));
  await api.delete(`${path}/d`);
  const token = encodeURIComponent(first.metadata.continue);
  const { body: second } = await api.get(`${path}?limit=2&continue=${token}`);
  const names = second.items.map(({ metadata }) => metadata.name);
  expect(names).toEqual(["d", "kube-root-ca.crt"]);
});

test("a dry run returns the result and stores nothing", async () => {
  const { code, body } = await api.post(`${MAPS}?dryRun=All`, map("dry"));
  expect([code, body.metadata.name]).toEqual([201, "dry"]);
  expect((await api.get(`${MAPS}/dry`)).code).toBe(404);
});

test("rejects a list from a future revision as too large", async () => {
  const { code, body } = await api.get(`${MAPS}?resourceVersion=999999999`);
  expect([code, body.details.causes[0]?.reason]).toEqual([504, "ResourceVersionTooLarge"]);
});
