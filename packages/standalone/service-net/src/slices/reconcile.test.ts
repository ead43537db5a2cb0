// SPDX-License-Identifier: Apache-2.0
// One Service on a store in memory: which slices and Endpoints are written.
import { ENDPOINT_SLICES, ENDPOINTS } from "@patchbay/api";
import type { Endpoints, EndpointSlice, Pod, Service } from "@patchbay/api/kubernetes";
import { findServiceKey } from "@patchbay/core/services";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import { aPod, aService } from "../testing/objects.ts";
import { reconcileSlices } from "./reconcile.ts";

function world(...services: readonly Service[]) {
  const objects = {
    services: createFakeCache<Service>(),
    pods: createFakeCache<Pod>({ namespace: ({ metadata }) => [metadata.namespace ?? ""] }),
    slices: createFakeCache<EndpointSlice>({ service: (slice) => [findServiceKey(slice) ?? ""] }),
    endpoints: createFakeCache<Endpoints>(),
  };
  for (const service of services) objects.services.put(service);
  const store = createFakeStore();
  return {
    ...objects,
    store,
    /** One pass; then the caches have what was written. */
    reconcile: async () => {
      const next = await reconcileSlices("blue/web", objects, store);
      for (const slice of (await store.list(ENDPOINT_SLICES)).items) objects.slices.put(slice);
      for (const item of (await store.list(ENDPOINTS)).items) objects.endpoints.put(item);
      return [next, store.calls.filter((call) => !call.startsWith("list"))];
    },
  };
}

const DONE = { kind: "done" };

test.each([
  { name: "that does not exist", services: [] },
  {
    name: "that is being deleted",
    services: [aService({}, { deletionTimestamp: "2026-01-01T00:00:00Z" })],
  },
  { name: "without selector", services: [aService({ selector: {} })] },
])("writes nothing for a Service $name", async ({ services }) => {
  const made = world(...services);
  made.pods.put(aPod("a", "10.88.0.5"));
  expect(await made.reconcile()).toEqual([DONE, []]);
});

test("creates slices and Endpoints, writes nothing without changes, then updates", async () => {
  const made = world(aService());
  made.pods.put(aPod("a", "10.88.0.5"));
  made.pods.put(aPod("other", "10.88.0.9", { metadata: { namespace: "red" } }));
  const created = ["create endpointslices blue/web-0", "create endpoints blue/web"];
  expect(await made.reconcile()).toEqual([DONE, created]);
  expect(await made.reconcile()).toEqual([DONE, created]);
  made.pods.put(aPod("b", "10.88.0.6"));
  const changed = ["update endpointslices blue/web-0", "update endpoints blue/web"];
  expect(await made.reconcile()).toEqual([DONE, [...created, ...changed]]);
  expect(made.endpoints.list()).toMatchObject([
    { subsets: [{ addresses: [{ ip: "10.88.0.5" }, { ip: "10.88.0.6" }] }] },
  ]);
});
