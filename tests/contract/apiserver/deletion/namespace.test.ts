// SPDX-License-Identifier: Apache-2.0
// Deletion of a namespace: blockers, conditions, and rejected requests.
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "@patchbay/support";
import { type Harness, startHarness } from "../harness.ts";

const NAMESPACES = "/api/v1/namespaces";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

async function make(name: string): Promise<string> {
  await api.post(NAMESPACES, { metadata: { name } });
  return `${NAMESPACES}/${name}`;
}

async function gone(path: string): Promise<boolean> {
  return eventually(async () => (await api.get(path)).code === 404, { withinMs: 5000 });
}

test.each(["default", "kube-system", "kube-public"])("%s cannot be deleted", async (name) => {
  const { code, body } = await api.delete(`${NAMESPACES}/${name}`);
  expect(code).toBe(403);
  expect(body.message).toBe(`namespaces "${name}" is forbidden: this namespace may not be deleted`);
});

test("conditions list what remains", async () => {
  const path = await make("held");
  const held = { name: "h", finalizers: ["test.io/hold"] };
  await api.post(`${path}/configmaps`, { metadata: held });
  const { body } = await api.delete(path);
  expect(body.metadata.deletionGracePeriodSeconds).toBeUndefined();
  const remaining = {
    NamespaceContentRemaining: "Some resources are remaining: configmaps. has 1 resource instances",
    NamespaceFinalizersRemaining:
      "Some content in the namespace has finalizers remaining: test.io/hold in 1 resource instances",
  };
  await eventually(
    async () => {
      const { status } = (await api.get(path)).body;
      const conditions = (status?.["conditions"] ?? []) as readonly Record<string, string>[];
      const reported = conditions
        .filter((condition) => condition["status"] === "True")
        .map((condition) => [condition["type"], condition["message"]]);
      return JSON.stringify(Object.fromEntries(reported)) === JSON.stringify(remaining);
    },
    { withinMs: 5000 },
  );
  const again = await api.delete(path);
  expect(again.body.metadata.deletionTimestamp).toBe(body.metadata.deletionTimestamp);
  await api.patch(`${path}/configmaps/h`, { metadata: { finalizers: null } });
  expect(await gone(path)).toBe(true);
});

test("only finalize changes the finalizers of the spec", async () => {
  const path = await make("finalized");
  const { body } = await api.get(path);
  const spec = { finalizers: ["kubernetes", "test.io/own"] };
  const put = await api.put(path, { ...body, spec: { finalizers: [] } });
  expect(put.body.spec).toEqual({ finalizers: ["kubernetes"] });
  expect((await api.put(`${path}/finalize`, { ...body, spec })).body.spec).toEqual(spec);
  expect((await api.put(`${path}/finalize`, { ...body, spec })).code).toBe(409);
  await api.delete(path);
  const left = await eventually(
    async () => {
      const { body: now } = await api.get(path);
      return (now.spec["finalizers"] as readonly string[]).length === 1 ? now : undefined;
    },
    { withinMs: 5000 },
  );
  expect(left.spec).toEqual({ finalizers: ["test.io/own"] });
  await api.put(`${path}/finalize`, { ...left, spec: {} });
  expect((await api.get(path)).code).toBe(404);
});

test("a dry run deletes nothing and marks nothing", async () => {
  const path = await make("dry");
  const tried = await api.delete(`${path}?dryRun=All`);
  expect(tried.body.status?.["phase"]).toBe("Terminating");
  expect((await api.get(path)).body.status?.["phase"]).toBe("Active");
  await api.post(`${NAMESPACES}?dryRun=All`, { metadata: { name: "unmade" } });
  expect((await api.get(`${NAMESPACES}/unmade`)).code).toBe(404);
});
