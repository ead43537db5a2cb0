// SPDX-License-Identifier: Apache-2.0
// A silent node, as the control plane handles it. The test controls the clock.
import { createClock } from "@patchbay/os";
import { eventually } from "@patchbay/support";
import { createFakeClock } from "@patchbay/os/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Harness, startHarness } from "../harness.ts";

const NODES = "/api/v1/nodes";
const LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";
const TIMEOUT = { withinMs: 10_000 };
const GRACE_MS = 40_000;

/** The test's clock has only timers of grace periods. */
const graces = createFakeClock();
const real = createClock();
let api: Harness;

beforeEach(async () => {
  api = await startHarness({
    clock: {
      ...real,
      sleep: (ms, signal) => (ms === GRACE_MS ? graces : real).sleep(ms, signal),
    },
  });
  await api.post(NODES, { metadata: { name: "n" } });
  const conditions = [{ type: "Ready", status: "True", lastHeartbeatTime: "2026-01-01T00:00:00Z" }];
  await api.patch(`${NODES}/n/status`, { status: { conditions } });
  await api.post(LEASES, { metadata: { name: "n" }, spec: { renewTime: time(0) } });
});

afterEach(async () => {
  await api.close();
});

function time(second: number): string {
  return `2026-01-01T00:00:${String(second).padStart(2, "0")}.000000Z`;
}

async function ready(): Promise<unknown> {
  const { status } = (await api.get(`${NODES}/n`)).body;
  const conditions = status?.["conditions"] as readonly { type: string; status: string }[];
  return conditions.find(({ type }) => type === "Ready")?.status;
}

async function printed(): Promise<string> {
  return (await api.get(NODES, TABLE)).text;
}

test("a node that renews its lease stays ready; a silent node is unready until it reports again", async () => {
  expect(await printed()).toContain('"Ready"');
  for (let turn = 1; turn <= 3; turn += 1) {
    await graces.advance(GRACE_MS - 10_000);
    await api.patch(`${LEASES}/n`, { spec: { renewTime: time(turn) } });
    expect(await ready()).toBe("True");
  }
  await graces.advance(GRACE_MS);
  await eventually(async () => (await ready()) === "Unknown", TIMEOUT);
  expect(await printed()).toContain('"NotReady"');
  const conditions = [{ type: "Ready", status: "True", lastHeartbeatTime: "2026-01-01T00:01:00Z" }];
  await api.patch(`${NODES}/n/status`, { status: { conditions } });
  expect(await ready()).toBe("True");
});

test("other clients' writes do not count as heartbeats", async () => {
  await graces.advance(GRACE_MS - 1);
  await api.patch(`${NODES}/n`, { metadata: { labels: { a: "b" } } });
  await api.patch(`${LEASES}/n`, { metadata: { labels: { a: "b" } } });
  await graces.advance(1);
  await eventually(async () => (await ready()) === "Unknown", TIMEOUT);
});

test("does not wait for a deleted node", async () => {
  await api.delete(`${NODES}/n`);
  await eventually(() => graces.dueMs.length === 0, TIMEOUT);
});
