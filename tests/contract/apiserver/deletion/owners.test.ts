// SPDX-License-Identifier: Apache-2.0
// Valid owner references, and the order of deletions.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "@patchbay/support";
import {
  type Answer,
  type Body,
  type Harness,
  startHarness,
  widgetDefinition,
} from "../harness.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const UNPRIVILEGED_USER = "11111111-0000-4000-8000-000000000000";

let api: Harness;
let count = 0;

beforeAll(async () => {
  api = await startHarness();
  await api.post("/api/v1/namespaces", { metadata: { name: "other" } });
});

afterAll(async () => {
  await api.close();
});

async function make(metadata: Readonly<Record<string, unknown>> = {}, maps = MAPS): Promise<Body> {
  count += 1;
  return (await api.post(maps, { metadata: { name: `g-${String(count)}`, ...metadata } })).body;
}

function isAbsent({ code }: Answer): boolean {
  return code === 404;
}

function pathOf({ metadata }: Body): string {
  return `/api/v1/namespaces/${metadata.namespace ?? ""}/configmaps/${metadata.name}`;
}

function refer(owner: Body, more: Readonly<Record<string, unknown>> = {}) {
  const { name, uid } = owner.metadata;
  return { apiVersion: owner.apiVersion, kind: owner.kind, name, uid, ...more };
}

async function gone(...paths: readonly string[]): Promise<boolean> {
  return eventually(
    async () => (await Promise.all(paths.map((path) => api.get(path)))).every(isAbsent),
    { withinMs: 5000 },
  );
}

/** Waits until the collector has processed earlier events, because it works in order. */
async function collected(): Promise<void> {
  const unprivileged = {
    apiVersion: "v1",
    kind: "ConfigMap",
    name: "nobody",
    uid: UNPRIVILEGED_USER,
  };
  const probe = await make({ ownerReferences: [unprivileged] });
  await gone(pathOf(probe));
}

describe("owner references", () => {
  test.each([
    { what: "another name", more: { name: "another" } },
    { what: "another kind", more: { kind: "Secret" } },
    { what: "another uid", more: { uid: UNPRIVILEGED_USER } },
  ])("ignores a reference with $what", async ({ more }) => {
    const owner = await make();
    const dependent = await make({ ownerReferences: [refer(owner, more)] });
    await gone(pathOf(dependent));
    expect((await api.get(pathOf(owner))).code).toBe(200);
  });

  test("an owner of an unserved kind retains its dependents", async () => {
    const owner = { apiVersion: "no.such/v1", kind: "Nothing", name: "n", uid: UNPRIVILEGED_USER };
    const dependent = await make({ ownerReferences: [owner] });
    await collected();
    expect((await api.get(pathOf(dependent))).code).toBe(200);
  });

  test("ignores an owner in another namespace and records an event", async () => {
    const owner = await make({}, "/api/v1/namespaces/other/configmaps");
    const dependent = await make({ ownerReferences: [refer(owner)] });
    await gone(pathOf(dependent));
    const { body } = await api.get(
      `/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=${dependent.metadata.name}`,
    );
    expect(body.items[0]).toMatchObject({ reason: "OwnerRefInvalidNamespace", type: "Warning" });
  });

  test("a namespaced owner of a cluster-scoped object changes nothing", async () => {
    const owner = await make();
    const node = "/api/v1/nodes/owned";
    await api.post("/api/v1/nodes", {
      metadata: { name: "owned", ownerReferences: [refer(owner)] },
    });
    await api.delete(pathOf(owner));
    await collected();
    expect((await api.get(node)).code).toBe(200);
    await api.delete(node);
  });

  test("deletes dependents of custom resources even when their kind is deleted too", async () => {
    await api.post(DEFINITIONS, widgetDefinition("gone.test"));
    const widgets = "/apis/gone.test/v1/namespaces/default/widgets";
    const widget = { apiVersion: "gone.test/v1", kind: "Widget", metadata: { name: "w" } };
    const { body: owner } = await api.post(widgets, widget);
    const dependent = await make({ ownerReferences: [refer(owner)] });
    await api.delete(`${DEFINITIONS}/widgets.gone.test`);
    expect(await gone(pathOf(dependent))).toBe(true);
  });

  test.each(["apiVersion", "kind", "name", "uid"])(
    "rejects a reference without %s",
    async (field) => {
      const reference = { ...refer(await make()), [field]: undefined };
      const refused = await api.post(MAPS, {
        metadata: { name: "bad", ownerReferences: [reference] },
      });
      expect(refused.code).toBe(422);
      expect(refused.body.details.causes[0]?.field).toBe(`metadata.ownerReferences.${field}`);
    },
  );
});

describe("in foreground", () => {
  test("deletes leaves first and their owners after them", async () => {
    const root = await make();
    const block = { blockOwnerDeletion: true };
    const branch = await make({ ownerReferences: [refer(root, block)] });
    const leaf = await make({ ownerReferences: [refer(branch, block)] });
    const all = [root, branch, leaf].map(({ metadata }) => metadata.name);
    await using watch = await api.watch(
      `${MAPS}?watch=1&resourceVersion=${leaf.metadata.resourceVersion}`,
    );
    await api.delete(pathOf(root), { propagationPolicy: "Foreground" });
    await gone(pathOf(root));
    const order = () =>
      watch.events
        .filter(({ type, object }) => type === "DELETED" && all.includes(object.metadata.name))
        .map(({ object }) => object.metadata.name);
    await eventually(() => Promise.resolve(order().length === 3), { withinMs: 5000 });
    expect(order()).toEqual(all.toReversed());
  });

  test("owners of each other do not block each other forever", async () => {
    const left = await make();
    const block = { blockOwnerDeletion: true };
    const right = await make({ ownerReferences: [refer(left, block)] });
    await api.patch(pathOf(left), { metadata: { ownerReferences: [refer(right, block)] } });
    await api.delete(pathOf(left), { propagationPolicy: "Foreground" });
    expect(await gone(pathOf(left), pathOf(right))).toBe(true);
  });

  test("an owner is deleted once its dependent no longer blocks it", async () => {
    const owner = await make();
    const reference = refer(owner, { blockOwnerDeletion: true });
    const held = await make({ finalizers: ["test.io/hold"], ownerReferences: [reference] });
    await api.delete(pathOf(owner), { propagationPolicy: "Foreground" });
    await eventually(
      async () => (await api.get(pathOf(held))).body.metadata.deletionTimestamp !== undefined,
      { withinMs: 5000 },
    );
    expect((await api.get(pathOf(owner))).code).toBe(200);
    const unblocked = { ...reference, blockOwnerDeletion: false };
    await api.patch(pathOf(held), { metadata: { ownerReferences: [unblocked] } });
    await gone(pathOf(owner));
    await api.patch(pathOf(held), { metadata: { finalizers: null } });
  });

  test("a dependent with another owner only loses the reference", async () => {
    const [going, staying] = [await make(), await make()];
    const references = [refer(going, { blockOwnerDeletion: true }), refer(staying)];
    const shared = await make({ ownerReferences: references });
    await api.delete(pathOf(going), { propagationPolicy: "Foreground" });
    await gone(pathOf(going));
    const { ownerReferences } = (await api.get(pathOf(shared))).body.metadata;
    expect(ownerReferences?.map(({ uid }) => uid)).toEqual([staying.metadata.uid]);
  });
});
