// SPDX-License-Identifier: Apache-2.0
// Cascading deletion: dependents, contents of namespaces, objects of definitions.
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "@patchbay/support";
import { type Body, type Harness, startHarness, widgetDefinition } from "../harness.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

async function make(name: string, metadata: Readonly<Record<string, unknown>> = {}): Promise<Body> {
  const { body } = await api.post(MAPS, { metadata: { name, ...metadata } });
  return body;
}

function ownedBy(owner: Body, more: Readonly<Record<string, unknown>> = {}) {
  const { name, uid } = owner.metadata;
  return { ownerReferences: [{ apiVersion: "v1", kind: "ConfigMap", name, uid, ...more }] };
}

async function gone(path: string): Promise<boolean> {
  return eventually(async () => (await api.get(path)).code === 404, { withinMs: 5000 });
}

test("deletes dependents after their owner", async () => {
  const owner = await make("bg-owner");
  await make("bg-child", ownedBy(owner));
  await api.delete(`${MAPS}/bg-owner`);
  expect(await gone(`${MAPS}/bg-child`)).toBe(true);
});

test("identifies an owner by uid, not by name", async () => {
  const owner = await make("again");
  await api.delete(`${MAPS}/again`);
  await make("again");
  await make("again-child", ownedBy(owner));
  expect(await gone(`${MAPS}/again-child`)).toBe(true);
});

test("foreground deletion deletes the owner last", async () => {
  const owner = await make("fg-owner");
  const block = ownedBy(owner, { blockOwnerDeletion: true });
  await make("fg-child", { ...block, finalizers: ["test.io/hold"] });
  const { body } = await api.delete(`${MAPS}/fg-owner?propagationPolicy=Foreground`);
  expect(body.metadata.finalizers).toEqual(["foregroundDeletion"]);
  await eventually(
    async () => (await api.get(`${MAPS}/fg-child`)).body.metadata.deletionTimestamp !== undefined,
    { withinMs: 5000 },
  );
  expect((await api.get(`${MAPS}/fg-owner`)).code).toBe(200);
  await api.patch(`${MAPS}/fg-child`, { metadata: { finalizers: null } });
  expect(await gone(`${MAPS}/fg-owner`)).toBe(true);
});

test("orphans stay and lose their owner reference", async () => {
  const owner = await make("orphan-owner");
  await make("orphan-child", ownedBy(owner));
  await api.delete(`${MAPS}/orphan-owner?propagationPolicy=Orphan`);
  expect(await gone(`${MAPS}/orphan-owner`)).toBe(true);
  const { body } = await api.get(`${MAPS}/orphan-child`);
  expect(body.metadata.ownerReferences).toBeUndefined();
});

test("a dependent stays while one of its owners exists and drops the deleted one", async () => {
  const [dead, alive] = [await make("dead"), await make("alive")];
  const references = [...ownedBy(dead).ownerReferences, ...ownedBy(alive).ownerReferences];
  await make("shared", { ownerReferences: references });
  await api.delete(`${MAPS}/dead`);
  const remaining = await eventually(
    async () => {
      const { ownerReferences } = (await api.get(`${MAPS}/shared`)).body.metadata;
      return ownerReferences?.length === 1 ? ownerReferences : undefined;
    },
    { withinMs: 5000 },
  );
  expect(remaining[0]?.uid).toBe(alive.metadata.uid);
});

test("empties a namespace, rejects new objects meanwhile, and deletes it", async () => {
  await api.post("/api/v1/namespaces", { metadata: { name: "brief" } });
  const maps = "/api/v1/namespaces/brief/configmaps";
  await api.post(maps, { metadata: { name: "held", finalizers: ["test.io/hold"] } });
  const { body } = await api.delete("/api/v1/namespaces/brief");
  expect(body.status?.["phase"]).toBe("Terminating");
  const refused = await api.post(maps, { metadata: { name: "new" } });
  expect([refused.code, refused.body.details.causes[0]?.reason]).toEqual([
    403,
    "NamespaceTerminating",
  ]);
  await api.patch(`${maps}/held`, { metadata: { finalizers: null } });
  expect(await gone("/api/v1/namespaces/brief")).toBe(true);
});

test("deletes a definition with its objects", async () => {
  const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  await api.post(definitions, widgetDefinition("brief.test"));
  const widgets = "/apis/brief.test/v1/namespaces/default/widgets";
  await api.post(widgets, { apiVersion: "brief.test/v1", kind: "Widget", metadata: { name: "w" } });
  await api.delete(`${definitions}/widgets.brief.test`);
  expect(await gone(`${definitions}/widgets.brief.test`)).toBe(true);
  expect((await api.get(widgets)).code).toBe(404);
});
