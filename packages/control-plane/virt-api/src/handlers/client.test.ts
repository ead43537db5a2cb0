// SPDX-License-Identifier: Apache-2.0
import { PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import { findByPods } from "./client.ts";

let store: FakeStore;

beforeEach(() => {
  store = createFakeStore();
});

function put(
  name: string,
  status: NonNullable<Pod["status"]>,
  metadata: Partial<Pod["metadata"]> = {},
): void {
  const labels = { "app.kubernetes.io/name": "virt-handler" };
  store.put(PODS, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: "patchbay", name, labels, ...metadata },
    spec: { nodeName: "node1", containers: [] },
    status,
  });
}

test("findByPods returns the address of the running pod", async () => {
  put(
    "old",
    { phase: "Running", podIP: "10.0.0.1" },
    { deletionTimestamp: "2026-01-01T00:00:00Z" },
  );
  put("new", { phase: "Running", podIP: "10.0.0.2" });
  expect(await findByPods(store)("node1")).toEqual({ host: "10.0.0.2", port: 8186 });
});

test.each<{ name: string; status: NonNullable<Pod["status"]> }>([
  { name: "has not begun", status: { phase: "Pending", podIP: "10.0.0.1" } },
  { name: "has no address", status: { phase: "Running" } },
])("ignores a pod that $name", async ({ status }) => {
  put("new", status);
  expect(await findByPods(store)("node1")).toBeUndefined();
});
