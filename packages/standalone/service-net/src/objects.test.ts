// SPDX-License-Identifier: Apache-2.0
// The caches, and which Services a change concerns.
import type { Endpoints, EndpointSlice, KubeObject, Pod, Service } from "@patchbay/api/kubernetes";
import { copyJson, createFakeCache } from "@patchbay/kube/testing";
import type { KubeClient } from "@patchbay/kube";
import { createSilentLogger } from "@patchbay/telemetry";
import { describe, expect, test } from "vitest";
import { listSlices, enqueueServicesOnChange, watchObjects } from "./objects.ts";
import { aPod, aService, aSlice } from "./testing/objects.ts";

/** The caches on watches that report these objects of each resource. */
async function watched(objects: Readonly<Record<string, readonly KubeObject[]>>) {
  const client: Pick<KubeClient, "reflect"> = {
    reflect: (type, { trim = (object: never) => object } = {}) => {
      const subscribe = (emit: (event: unknown) => void): object => {
        const listed = (objects[type.resource] ?? []).map((object) => trim(object as never));
        emit({ kind: "listed", objects: listed });
        return { unsubscribe: () => undefined };
      };
      return { subscribe } as never; // a cache uses nothing else of it
    },
  };
  const caches = watchObjects(client as KubeClient, createSilentLogger());
  const { signal } = new AbortController();
  for (const cache of [caches.services, caches.pods, caches.slices, caches.endpoints]) {
    cache.start(signal);
    await cache.synced();
  }
  return caches;
}

describe("the caches", () => {
  test("find pods by namespace, and slices by the Service that they reference", async () => {
    const nameless = aSlice([], { metadata: { name: "nameless", namespace: "blue", labels: {} } });
    const pods = [
      aPod("a", "10.88.0.5"),
      aPod("b", "10.88.0.6", { metadata: { namespace: "red" } }),
    ];
    const slices = [aSlice([]), nameless];
    const caches = await watched({ pods, endpointslices: slices, services: [aService()] });
    expect(caches.pods.listBy("namespace", "red").map(({ metadata }) => metadata.name)).toEqual([
      "b",
    ]);
    expect(listSlices(caches.slices, "blue/web")).toEqual([aSlice([])]);
    expect(caches.slices.list()).toHaveLength(2);
    expect(caches.services.list()).toEqual([aService()]);
  });

  test("retain only the pod fields that slices need", async () => {
    const pod = aPod("a", "10.88.0.5", {
      metadata: { annotations: { big: "text" }, resourceVersion: "7" },
      spec: {
        hostname: "vm1",
        subdomain: "web",
        hostNetwork: false,
        containers: [
          {
            name: "c",
            image: "i",
            command: ["run"],
            ports: [{ name: "http", containerPort: 8080 }],
          },
          { name: "d", image: "i" },
        ],
      },
      status: {
        conditions: [
          { type: "Initialized", status: "True" },
          { type: "Ready", status: "False" },
        ],
        hostIP: "192.0.2.1",
      },
    });
    const caches = await watched({ pods: [pod] });
    expect(copyJson(caches.pods.list())).toEqual([
      {
        apiVersion: "v1",
        kind: "Pod",
        metadata: {
          name: "a",
          namespace: "blue",
          uid: "a-uid",
          resourceVersion: "7",
          labels: { app: "web" },
        },
        spec: {
          hostname: "vm1",
          subdomain: "web",
          nodeName: "node1",
          hostNetwork: false,
          containers: [
            { name: "c", image: "", ports: [{ name: "http", containerPort: 8080 }] },
            { name: "d", image: "", ports: [] },
          ],
        },
        status: {
          phase: "Running",
          podIP: "10.88.0.5",
          conditions: [{ type: "Ready", status: "False" }],
        },
      },
    ]);
  });

  test("retain no annotations, and only the read fields of a Service", async () => {
    const annotations = { big: "text" };
    const { spec, ...service } = aService({}, { annotations, labels: { a: "b" } });
    const stored: Service = {
      ...service,
      spec: Object.assign(spec, { externalIPs: ["192.0.2.1"] }),
      status: { conditions: [] },
    };
    const caches = await watched({
      services: [stored],
      endpointslices: [aSlice([], { metadata: { name: "web-0", namespace: "blue", annotations } })],
      endpoints: [{ apiVersion: "v1", kind: "Endpoints", metadata: { name: "web", annotations } }],
    });
    expect(caches.services.list()).toEqual([aService({}, { labels: { a: "b" } })]);
    expect(caches.slices.list()).toEqual([
      aSlice([], { metadata: { name: "web-0", namespace: "blue" } }),
    ]);
    expect(caches.endpoints.list()).toEqual([
      { apiVersion: "v1", kind: "Endpoints", metadata: { name: "web" } },
    ]);
  });

  test("accept a pod without status", async () => {
    const { apiVersion, kind, metadata, spec } = aPod("a", "");
    const pod = { apiVersion, kind, metadata, spec };
    const caches = await watched({ pods: [pod] });
    expect(caches.pods.list()).toMatchObject([{ metadata: { name: "a" }, status: {} }]);
  });
});

/** Fake caches, and the keys of the Services whose slices are due. */
function woken() {
  const caches = {
    services: createFakeCache<Service>(),
    pods: createFakeCache<Pod>(),
    slices: createFakeCache<EndpointSlice>(),
    endpoints: createFakeCache<Endpoints>(),
  };
  const keys: string[] = [];
  caches.services.put(aService());
  caches.services.put(aService({ selector: { app: "db" } }, { name: "db" }));
  caches.services.put(aService({ selector: {} }, { name: "manual" }));
  enqueueServicesOnChange(caches, (key) => keys.push(key));
  return { ...caches, keys };
}

describe("services affected by a change", () => {
  test("the changed Service, and the Service of changed Endpoints", () => {
    const { services, endpoints, keys } = woken();
    services.put(aService({ clusterIP: "10.96.0.6" }));
    endpoints.put({
      apiVersion: "v1",
      kind: "Endpoints",
      metadata: { name: "db", namespace: "blue" },
    });
    endpoints.take({ name: "db", namespace: "blue" });
    expect([...new Set(keys)]).toEqual(["blue/web", "blue/db"]);
  });

  test("the Service of a slice", () => {
    const { slices, keys } = woken();
    slices.put(aSlice([]));
    slices.put(aSlice([], { metadata: { name: "nameless", namespace: "blue" } }));
    expect(keys).toEqual(["blue/web"]);
  });

  test("the Services that select the pod before or after", () => {
    const { pods, keys } = woken();
    pods.put(aPod("a", "10.88.0.5"));
    expect(keys.splice(0)).toEqual(["blue/web"]);
    pods.put(aPod("a", "10.88.0.5", { metadata: { labels: { app: "db" } } }));
    expect(keys.splice(0)).toEqual(["blue/db", "blue/web"]);
    pods.take({ name: "a", namespace: "blue" });
    expect(keys).toEqual(["blue/db"]);
  });
});
