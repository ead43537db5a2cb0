// SPDX-License-Identifier: Apache-2.0
// The Services loop on test caches and a store in memory: wake-ups and writes.
import {
  ENDPOINT_SLICES,
  names,
  SERVICES,
  type KubeVirt,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { EndpointSlice, Service } from "@patchbay/api/kubernetes";
import { AppError, isEqual } from "@patchbay/base";
import { listNetworkNames } from "@patchbay/core/vm";
import { listStates } from "@patchbay/kube";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import { createFakeClock } from "@patchbay/os/testing";
import { aVmi } from "@patchbay/support";
import { beforeEach, describe, expect, test } from "vitest";
import { SERVICE_INDEXES, enqueueNetworkServices } from "./caches.ts";
import { reconcileService } from "./loop.ts";

const KEY = "default/web";
const NAMES = { namespace: "default", name: "web" };

function aService(annotations: Readonly<Record<string, string>> = {}): Service {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      name: "web",
      namespace: "default",
      uid: "service-uid",
      annotations: {
        [names.SERVICE_NETWORK_ANNOTATION]: "blue",
        [names.SERVICE_SELECTOR_ANNOTATION]: "app=web",
        ...annotations,
      },
    },
    spec: { ports: [{ port: 80 }] },
    status: { conditions: [] },
  };
}

function aServed(ip: string, labels: Readonly<Record<string, string>> = { app: "web" }) {
  const podInterfaceName = "pod0123456789a";
  const vmi = aVmi({ nics: [{ name: "nic" }] });
  return {
    ...vmi,
    metadata: { ...vmi.metadata, labels },
    status: {
      conditions: [{ type: "Ready", status: "True" as const }],
      attachments: [
        {
          name: "nic",
          networkName: "default/blue",
          podInterfaceName,
          state: "Attached" as const,
          ips: [ip],
        },
      ],
      interfaces: [
        { name: "nic", podInterfaceName, hotplug: { type: "Plug", phase: "Ready" } as const },
      ],
    },
  };
}

function aDefinition(subnet = "10.77.1.0/24"): NetworkAttachmentDefinition {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace: "default", name: "blue" },
    spec: { config: JSON.stringify({ type: "bridge", ipam: { subnet } }) },
  };
}

function aKubeVirt(trustedNamespaces: readonly string[]): KubeVirt {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "KubeVirt",
    metadata: { namespace: "patchbay", name: "kubevirt" },
    spec: { configuration: { network: { tenantPolicy: { trustedNamespaces } } } },
  };
}

function makeWorld() {
  const caches = {
    services: createFakeCache<Service>(SERVICE_INDEXES.services),
    slices: createFakeCache<EndpointSlice>(SERVICE_INDEXES.slices),
    vmis: createFakeCache<VirtualMachineInstance>({ network: (vmi) => listNetworkNames(vmi, {}) }),
    nads: createFakeCache<NetworkAttachmentDefinition>(),
    kubevirts: createFakeCache<KubeVirt>(),
  };
  const store = createFakeStore();
  const woken = new Set<string>();
  const events: string[] = [];
  const lastRejections = new Map<string, string>();
  const clock = createFakeClock();
  enqueueNetworkServices(caches, (key) => woken.add(key));
  const recorder = {
    record: (_object: unknown, { reason, message }: { reason: string; message: string }) =>
      void events.push(`${reason}: ${message}`),
  };
  const pass = (key: string) =>
    reconcileService(key, { ...caches, store, clock, events: recorder, lastRejections });
  /** The server has each Service of the cache, with the status that the loop has written. */
  const isStored = (service: Service): boolean => service.metadata.resourceVersion !== undefined;
  caches.services.onChange((change) => {
    for (const service of listStates(change).slice(-1))
      if (!isStored(service)) store.put(SERVICES, service);
  });
  const learn = async (): Promise<void> => {
    for (const service of (await store.list(SERVICES)).items) {
      const isNew = !isEqual(caches.services.find(service.metadata)?.status, service.status);
      if (isNew) caches.services.put(service);
    }
    const { items } = await store.list(ENDPOINT_SLICES);
    for (const known of caches.slices.list()) {
      if (!items.some(({ metadata }) => metadata.name === known.metadata.name)) {
        caches.slices.take(known.metadata);
      }
    }
    const isNews = ({ metadata }: EndpointSlice): boolean =>
      caches.slices.find(metadata)?.metadata.resourceVersion !== metadata.resourceVersion;
    for (const item of items.filter(isNews)) caches.slices.put(item);
  };
  /** Runs passes until the queue is empty; returns the writes. */
  const settle = async (): Promise<readonly string[]> => {
    const before = store.calls.length;
    for (let rounds = 0; woken.size > 0; rounds += 1) {
      if (rounds > 4) throw new Error("it never settles");
      const keys = [...woken];
      woken.clear();
      for (const key of keys) await pass(key);
      await learn();
    }
    const isWrite = (call: string): boolean =>
      / endpointslices /.test(call) && !call.startsWith("list");
    return store.calls.slice(before).flatMap((call) => (isWrite(call) ? call.split(" ", 1) : []));
  };
  const addresses = async (): Promise<readonly string[]> => {
    const { items } = await store.list(ENDPOINT_SLICES);
    return items.flatMap(({ endpoints = [] }) => endpoints.flatMap(({ addresses }) => addresses));
  };
  return { ...caches, store, woken, events, pass, settle, addresses };
}

let world: ReturnType<typeof makeWorld>;

beforeEach(async () => {
  world = makeWorld();
  world.nads.put(aDefinition());
  world.vmis.put(aServed("10.77.1.5"));
  world.services.put(aService());
  await world.settle();
});

test("a Service that requests a network has a slice", async () => {
  const writes = world.store.calls.filter((call) => !/^(?:list|get) /.test(call));
  expect(writes).toEqual([
    expect.stringMatching(/^create endpointslices /),
    "patch services default/web",
  ]);
  expect(await world.addresses()).toEqual(["10.77.1.5"]);
});

describe("no Service is reconciled", () => {
  test("after a VMI change without new addresses", () => {
    const vmi = aServed("10.77.1.5");
    world.vmis.put({ ...vmi, metadata: { ...vmi.metadata, resourceVersion: "9" } });
    expect([...world.woken]).toEqual([]);
  });

  test("after a change of a VMI that no Service selects", () => {
    const vmi = aServed("10.77.1.9", { app: "db" });
    world.vmis.put({ ...vmi, metadata: { ...vmi.metadata, name: "db", uid: "db-uid" } });
    expect([...world.woken]).toEqual([]);
  });

  test("after a change of a Service without a network", () => {
    const { metadata, spec } = aService();
    const plain = { name: "plain", namespace: "default", uid: "plain-uid" };
    world.services.put({ apiVersion: "v1", kind: "Service", metadata: plain, spec });
    expect(metadata.name).toBe("web");
    expect([...world.woken]).toEqual([]);
  });

  test("after a change of another network or of other cluster settings", () => {
    const nad = aDefinition();
    world.nads.put({ ...nad, metadata: { ...nad.metadata, name: "red" } });
    world.kubevirts.put(aKubeVirt(["default"]));
    world.woken.clear();
    world.kubevirts.put({ ...aKubeVirt(["default"]), status: { phase: "Deployed" } });
    expect([...world.woken]).toEqual([]);
  });
});

describe("the slice follows", () => {
  test("an address that changes", async () => {
    world.vmis.put(aServed("10.77.1.6"));
    expect(await world.settle()).toEqual(["update"]);
    expect(await world.addresses()).toEqual(["10.77.1.6"]);
  });

  test.each([
    {
      name: "a deleted VMI",
      act: () => {
        world.vmis.take({ namespace: "default", name: "vm1" });
      },
    },
    {
      name: "a VMI that loses its label",
      act: () => {
        world.vmis.put(aServed("10.77.1.5", {}));
      },
    },
    {
      name: "a Service that no longer requests a network",
      act: () => {
        const { metadata, ...rest } = aService();
        world.services.put({ ...rest, metadata: { ...metadata, annotations: {} } });
      },
    },
    {
      name: "a Service that selects other VMs",
      act: () => {
        world.services.put(aService({ [names.SERVICE_SELECTOR_ANNOTATION]: "app=db" }));
      },
    },
    {
      name: "a deleted definition",
      act: () => {
        world.nads.take({ namespace: "default", name: "blue" });
      },
    },
    {
      name: "a NetworkAttachmentDefinition with other addresses",
      act: () => {
        world.nads.put(aDefinition("10.78.0.0/24"));
      },
    },
    {
      name: "the cluster configuration",
      act: () => {
        world.kubevirts.put(aKubeVirt(["admins"]));
      },
    },
  ])("$name", async ({ act }) => {
    act();
    expect(await world.settle()).toEqual(["delete"]);
    expect(await world.addresses()).toEqual([]);
  });

  test("restores slices that another client changed or deleted", async () => {
    const [slice] = world.slices.list();
    const changed = { ...slice, endpoints: [{ addresses: ["192.0.2.1"] }] } as EndpointSlice;
    world.store.put(ENDPOINT_SLICES, changed);
    world.slices.put((await world.store.list(ENDPOINT_SLICES)).items[0] ?? changed);
    expect(await world.settle()).toEqual(["update"]);
    await world.store.delete(ENDPOINT_SLICES, changed.metadata);
    world.slices.take(changed.metadata);
    expect(await world.settle()).toEqual(["create"]);
    expect(await world.addresses()).toEqual(["10.77.1.5"]);
  });
});

test("a rejection is recorded as an event of the Service", async () => {
  world.services.put(aService({ [names.SERVICE_SELECTOR_ANNOTATION]: "everything" }));
  expect(await world.settle()).toEqual(["delete"]);
  expect(world.events).toEqual([expect.stringMatching(/^ServiceNetworkRefused: .*KEY=VALUE/)]);
});

describe("a Service's condition", () => {
  const conditions = async () => (await world.store.find(SERVICES, NAMES))?.status?.conditions;

  test("reports whether the nodes have an address on the network", async () => {
    expect(await conditions()).toMatchObject([
      { type: "patchbay.io/NetworkReachable", status: "Unknown", reason: "NoNodeAddress" },
    ]);
    const { spec, ...definition } = aDefinition();
    const config = JSON.stringify({ ...JSON.parse(spec?.config ?? ""), isGateway: true });
    world.nads.put({ ...definition, spec: { config } });
    await world.settle();
    expect(await conditions()).toMatchObject([{ status: "True", reason: "NodeAddress" }]);
  });

  test("reports a rejection, and is removed with the request, also after a restart", async () => {
    world.services.put(aService({ [names.SERVICE_SELECTOR_ANNOTATION]: "everything" }));
    await world.settle();
    expect(await conditions()).toMatchObject([
      { status: "False", reason: "ServiceNetworkRefused" },
    ]);
    const { metadata, status = {} } = (await world.store.find(SERVICES, NAMES)) ?? aService();
    world = makeWorld();
    world.services.put({ ...aService(), metadata: { ...NAMES, uid: metadata.uid ?? "" }, status });
    expect([...world.woken]).toEqual([KEY]);
    await world.settle();
    expect(await conditions()).toEqual([]);
  });
});

test("slices are deleted if the Service stopped requesting them during downtime", async () => {
  const { metadata, ...rest } = aService();
  const later = makeWorld();
  later.services.put({ ...rest, metadata: { ...metadata, annotations: {} } });
  for (const slice of world.slices.list()) {
    later.store.put(ENDPOINT_SLICES, slice);
    later.slices.put(slice);
  }
  expect(await later.settle()).toEqual(["delete"]);
});

test("a concurrently changed slice is not overwritten", async () => {
  const [slice] = world.slices.list();
  world.vmis.put(aServed("10.77.1.6"));
  world.store.beforeNextWrite(() => {
    world.store.put(ENDPOINT_SLICES, { ...slice, ports: [] } as unknown as EndpointSlice);
  });
  const failure = await world.settle().catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(AppError);
  expect((failure as AppError).code).toBe("KUBE_CONFLICT");
});

test("the server deletes the slices of a deleted Service", async () => {
  await world.pass("default/none");
  const { metadata, ...rest } = aService();
  world.services.put({
    ...rest,
    metadata: { ...metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
  });
  expect([...world.woken]).toEqual([KEY]);
  expect(await world.settle()).toEqual([]);
});
