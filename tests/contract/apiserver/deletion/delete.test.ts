// SPDX-License-Identifier: Apache-2.0
// Deletion: immediate, after a grace period, or with finalizers.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type Harness, startHarness } from "../harness.ts";

const DEFAULT = "/api/v1/namespaces/default";
const MAPS = `${DEFAULT}/configmaps`;
const PODS = `${DEFAULT}/pods`;
const OTHER_UID = "00000000-0000-4000-8000-000000000000";

let api: Harness;
let count = 0;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

function unused(): string {
  count += 1;
  return `d-${String(count)}`;
}

async function makeMap(metadata: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const name = unused();
  await api.post(MAPS, { metadata: { name, ...metadata }, data: { a: "1" } });
  return `${MAPS}/${name}`;
}

async function makePod(
  spec: Readonly<Record<string, unknown>>,
  finalizers: readonly string[] = [],
) {
  const name = unused();
  await api.post(PODS, {
    metadata: { name, finalizers },
    spec: { containers: [{ name: "c", image: "i:1" }], ...spec },
  });
  return `${PODS}/${name}`;
}

function graceOf({ body }: Answer): number | undefined {
  return body.metadata.deletionGracePeriodSeconds;
}

function deletionOf({ body }: Answer): number {
  return Date.parse(body.metadata.deletionTimestamp ?? "");
}

describe("pods", () => {
  test("deletes a pod without a node immediately; watchers first see the deletion mark", async () => {
    const path = await makePod({});
    const { body } = await api.get(path);
    const { name, resourceVersion } = body.metadata;
    await using watch = await api.watch(
      `${PODS}?watch=1&resourceVersion=${resourceVersion}&fieldSelector=metadata.name=${name}`,
    );
    const gone = await api.delete(path);
    expect([gone.body.kind, graceOf(gone)]).toEqual(["Pod", 0]);
    expect((await api.get(path)).code).toBe(404);
    expect((await watch.first(2)).map(({ type }) => type)).toEqual(["MODIFIED", "DELETED"]);
  });

  test.each([
    { what: "the default grace period", spec: {}, query: "", want: 30 },
    {
      what: "its own grace period",
      spec: { terminationGracePeriodSeconds: 7 },
      query: "",
      want: 7,
    },
    { what: "the requested grace period", spec: {}, query: "?gracePeriodSeconds=90", want: 90 },
    {
      what: "one second for a negative grace period",
      spec: {},
      query: "?gracePeriodSeconds=-3",
      want: 1,
    },
  ])("a pod on a node gets $what", async ({ spec, query, want }) => {
    const path = await makePod({ nodeName: "n", ...spec });
    expect(graceOf(await api.delete(`${path}${query}`))).toBe(want);
    expect((await api.get(path)).code).toBe(200);
    await api.delete(`${path}?gracePeriodSeconds=0`);
    expect((await api.get(path)).code).toBe(404);
  });

  test("the grace period can only be shortened, counted from the first request", async () => {
    const path = await makePod({ nodeName: "n" });
    const first = await api.delete(path);
    const longer = await api.delete(`${path}?gracePeriodSeconds=60`);
    expect(longer.body.metadata).toEqual(first.body.metadata);
    const shorter = await api.delete(`${path}?gracePeriodSeconds=10`);
    expect(graceOf(shorter)).toBe(10);
    expect(deletionOf(first) - deletionOf(shorter)).toBe(20_000);
  });

  test("finalizers outlive the grace period, and the grace period outlives finalizers", async () => {
    const held = await makePod({ nodeName: "n" }, ["test.io/f"]);
    await api.delete(`${held}?gracePeriodSeconds=0`);
    expect((await api.get(held)).code).toBe(200);
    await api.patch(held, { metadata: { finalizers: null } });
    expect((await api.get(held)).code).toBe(404);
    const graced = await makePod({ nodeName: "n" }, ["test.io/f"]);
    await api.delete(graced);
    await api.patch(graced, { metadata: { finalizers: null } });
    expect((await api.get(graced)).code).toBe(200);
  });
});

describe("finalizers", () => {
  test("marks an object once and deletes it in the write that removes the last finalizer", async () => {
    const path = await makeMap({ finalizers: ["test.io/a", "test.io/b"] });
    const marked = await api.delete(path);
    expect([marked.body.kind, graceOf(marked)]).toEqual(["ConfigMap", 0]);
    expect((await api.delete(path)).body.metadata).toEqual(marked.body.metadata);
    const added = await api.patch(path, {
      metadata: { finalizers: ["test.io/a", "test.io/b", "test.io/c"] },
    });
    expect(added.body.message).toContain('found new finalizers []string{"test.io/c"}');
    expect((await api.patch(path, { data: { a: "2" } })).code).toBe(200);
    await api.patch(path, { metadata: { finalizers: ["test.io/b"] } });
    const { name, resourceVersion } = (await api.get(path)).body.metadata;
    await using watch = await api.watch(
      `${MAPS}?watch=1&resourceVersion=${resourceVersion}&fieldSelector=metadata.name=${name}`,
    );
    const released = await api.patch(path, { metadata: { finalizers: null } });
    expect([released.code, released.body.kind]).toEqual([200, "ConfigMap"]);
    expect((await api.get(path)).code).toBe(404);
    const [event] = await watch.first(1);
    expect([event?.type, event?.object.metadata.finalizers]).toEqual(["DELETED", ["test.io/b"]]);
    expect(Number(event?.object.metadata.resourceVersion)).toBeGreaterThan(Number(resourceVersion));
  });

  test("finalizers record the propagation policy, which a later deletion may change", async () => {
    const path = await makeMap({ finalizers: ["test.io/a"] });
    const orphaned = await api.delete(path, { orphanDependents: true });
    expect(orphaned.body.metadata.finalizers).toEqual(["test.io/a", "orphan"]);
    const accepted = await api.delete(path, { orphanDependents: false });
    expect([accepted.code, accepted.body.metadata.finalizers]).toEqual([202, ["test.io/a"]]);
  });
});

describe("options", () => {
  test.each([
    { body: { propagationPolicy: "Bogus" }, field: "propagationPolicy" },
    { body: { propagationPolicy: "Orphan", orphanDependents: true }, field: "propagationPolicy" },
    { body: { dryRun: ["Some"] }, field: "dryRun" },
  ])("rejects $body with cause $field", async ({ body, field }) => {
    const path = await makeMap();
    const refused = await api.delete(path, body);
    expect(refused.body).toMatchObject({
      code: 422,
      reason: "Invalid",
      details: { group: "meta.k8s.io", kind: "DeleteOptions", causes: [{ field }] },
    });
    expect((await api.get(path)).code).toBe(200);
  });

  test.each(["{", "[]", '{"gracePeriodSeconds":"x"}', '{"preconditions":5}', '{"kind":"Pod"}'])(
    "rejects %s as delete options",
    async (body) => {
      const path = await makeMap();
      expect((await api.delete(path, body)).code).toBe(400);
      expect((await api.get(path)).code).toBe(200);
    },
  );

  test.each([
    { given: { uid: OTHER_UID }, text: "the UID in the precondition" },
    { given: { resourceVersion: "1" }, text: "the ResourceVersion in the precondition (1)" },
  ])("rejects an unmet precondition: $text", async ({ given: input, text }) => {
    const refused = await api.delete(await makeMap(), { preconditions: input });
    expect([refused.code, refused.body.reason]).toEqual([409, "Conflict"]);
    expect(refused.body.message).toContain(text);
  });

  test.each(["v1", "meta.k8s.io/v1", "apps/v1"])("accepts options of %s", async (apiVersion) => {
    const answer = await api.delete(await makeMap(), { kind: "DeleteOptions", apiVersion });
    expect(answer.body).toMatchObject({ kind: "Status", status: "Success" });
  });
});

describe("collections", () => {
  beforeAll(async () => {
    await api.post("/api/v1/namespaces", { metadata: { name: "many" } });
  });

  const maps = "/api/v1/namespaces/many/configmaps";

  async function fill(): Promise<void> {
    for (const name of ["a", "b", "c"]) {
      const labels = { like: name === "c" ? "other" : "same" };
      await api.post(maps, { metadata: { name, labels } });
    }
  }

  test.each([
    { query: "labelSelector=like%3Dsame", gone: ["a", "b"] },
    { query: "labelSelector=like&fieldSelector=metadata.name%3Db", gone: ["b"] },
    { query: "labelSelector=like&limit=1", gone: ["a"] },
    { query: "labelSelector=like%3Dnothing", gone: [] },
  ])("$query deletes $gone and returns them", async ({ query, gone }) => {
    await fill();
    const { body } = await api.delete(`${maps}?${query}`);
    expect(body.kind).toBe("ConfigMapList");
    expect(body.items.map(({ metadata }) => metadata.name)).toEqual(gone);
    const { body: remaining } = await api.get(`${maps}?labelSelector=like`);
    expect(remaining.items).toHaveLength(3 - gone.length);
  });

  test.each([
    { path: "/api/v1/configmaps?labelSelector=no", code: 405 },
    { path: "/api/v1/namespaces?labelSelector=no", code: 405 },
    { path: `${maps}?labelSelector=a+in+(`, code: 400 },
    { path: `${maps}?dryRun=x`, code: 422 },
  ])("$path: $code", async ({ path, code }) => {
    expect((await api.delete(path)).code).toBe(code);
  });
});
