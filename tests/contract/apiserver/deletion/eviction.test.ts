// SPDX-License-Identifier: Apache-2.0
// Evictions and disruption budgets.
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, startHarness } from "../harness.ts";

const PODS = "/api/v1/namespaces/default/pods";
const BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const TIMEOUT = { withinMs: 5000 };

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});
afterAll(async () => {
  await api.close();
});

/** A running and ready pod. */
async function readyPod(name: string, app: string): Promise<void> {
  const containers = [{ name: "c", image: "i:1" }];
  await api.post(PODS, {
    metadata: { name, labels: { app } },
    spec: { nodeName: "n", containers },
  });
  const conditions = [{ type: "Ready", status: "True" }];
  await api.patch(`${PODS}/${name}/status`, { status: { phase: "Running", conditions } });
}

async function budget(name: string, app: string, spec: object): Promise<void> {
  const selector = { matchLabels: { app } };
  await api.post(BUDGETS, { metadata: { name }, spec: { ...spec, selector } });
}

function evict(name: string) {
  return api.post(`${PODS}/${name}/eviction`, {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { name },
  });
}

test("a budget counts its pods and allows as many evictions as it permits", async () => {
  await budget("two", "web", { minAvailable: 2 });
  for (const name of ["web1", "web2", "web3"]) await readyPod(name, "web");
  await eventually(async () => {
    const { status } = (await api.get(`${BUDGETS}/two`)).body;
    return status?.["disruptionsAllowed"] === 1;
  }, TIMEOUT);
  expect((await api.get(`${BUDGETS}/two`)).body.status).toMatchObject({
    expectedPods: 3,
    currentHealthy: 3,
    desiredHealthy: 2,
    observedGeneration: 1,
  });
  const answers = await Promise.all(["web1", "web2", "web3"].map(evict));
  expect(answers.filter(({ code }) => code === 201)).toHaveLength(1);
  const refused = answers.find(({ code }) => code === 429);
  expect(refused?.body).toMatchObject({
    reason: "TooManyRequests",
    message: "Cannot evict pod as it would violate the pod's disruption budget.",
    details: {
      causes: [{ message: "The disruption budget two needs 2 healthy pods and has 2 currently" }],
    },
  });
});

test("evicts a pod that has not started, whatever its budget says", async () => {
  await budget("all", "db", { maxUnavailable: 0 });
  await readyPod("db1", "db");
  const containers = [{ name: "c", image: "i:1" }];
  await api.post(PODS, { metadata: { name: "db2", labels: { app: "db" } }, spec: { containers } });
  expect((await evict("db1")).code).toBe(429);
  expect((await evict("db2")).code).toBe(201);
});

test("rejects the eviction of a pod with two budgets and states why", async () => {
  await budget("first", "both", { minAvailable: 0 });
  await budget("second", "both", { minAvailable: 0 });
  await readyPod("both1", "both");
  const { code, body } = await evict("both1");
  expect([code, body.message]).toEqual([500, expect.stringContaining("more than one")]);
});

test("evicts a pod that is terminating already, or unready where that is always allowed", async () => {
  await budget("none", "cache", { maxUnavailable: 0 });
  await readyPod("cache1", "cache");
  await api.patch(`${PODS}/cache1`, { metadata: { finalizers: ["x.test/stay"] } });
  await api.delete(`${PODS}/cache1`);
  expect((await evict("cache1")).code).toBe(201);
  await budget("always", "sick", { maxUnavailable: 0, unhealthyPodEvictionPolicy: "AlwaysAllow" });
  for (const name of ["sick1", "sick2"]) await readyPod(name, "sick");
  const conditions = [{ type: "Ready", status: "False" }];
  await api.patch(`${PODS}/sick1/status`, { status: { conditions } });
  expect((await evict("sick2")).code).toBe(429);
  expect((await evict("sick1")).code).toBe(201);
});
