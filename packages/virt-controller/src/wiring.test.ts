// SPDX-License-Identifier: Apache-2.0
// The whole of virt-controller against an API server; the test plays the node.
import {
  names,
  parseNetworks,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type IfaceStatus,
  type Pod,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { KubeClient } from "@patchbay/kube";
import type { JsonPatchOperation } from "@patchbay/ports";
import { aVm, eventually, type NicSketch } from "@patchbay/testing";
import { startTestServer, type TestServer } from "@patchbay/testing/api-server";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { runController } from "./wiring.ts";

const KEY = { namespace: "default", name: "vm1" };
const SOON = { withinMs: 5000 };
const MAC = "02:00:00:00:00:01";

let server: TestServer;
let admin: KubeClient;
let stop: AbortController;
let running: Promise<void>;

async function startController(): Promise<void> {
  stop = new AbortController();
  const client = await server.client("system:serviceaccount:patchbay:virt-controller");
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const context = {
    client,
    clock: server.clock,
    log: server.log,
    signal: stop.signal,
    ready: () => {
      resolve(undefined);
    },
  };
  const flags = { logLevel: "info" as const, launcherImage: "virt-launcher", concurrency: 2 };
  running = runController(context, flags);
  await promise;
}

async function stopController(): Promise<void> {
  stop.abort(new Error("the test ends it"));
  await running;
}

async function createVm(nics: readonly NicSketch[]): Promise<void> {
  const vm = aVm({ nics });
  await admin.store.create(VIRTUAL_MACHINES, { ...vm, metadata: { ...KEY } });
}

async function vmi(): Promise<VirtualMachineInstance> {
  return eventually(() => admin.store.find(VIRTUAL_MACHINE_INSTANCES, KEY), SOON);
}

async function vm(): Promise<VirtualMachine> {
  return eventually(() => admin.store.find(VIRTUAL_MACHINES, KEY), SOON);
}

async function pod(): Promise<Pod> {
  return eventually(
    async () => (await admin.store.list(PODS, { namespace: "default" })).items[0],
    SOON,
  );
}

async function podPatch(operations: readonly JsonPatchOperation[]): Promise<void> {
  const { name } = (await pod()).metadata;
  const options = { subresource: "status" } as const;
  await admin.store.patch(
    PODS,
    { namespace: "default", name },
    { type: "json", operations },
    options,
  );
}

/** The runtime runs the pod, and the agents do what the annotation says. */
async function runPod(): Promise<void> {
  const { name } = (await pod()).metadata;
  const target = { apiVersion: "v1", kind: "Node", name: "node1" };
  await admin.requestRaw({
    method: "POST",
    path: `/api/v1/namespaces/default/pods/${name}/binding`,
    body: { apiVersion: "v1", kind: "Binding", metadata: { name }, target },
  });
  await podPatch([{ op: "add", path: "/status", value: { phase: "Running" } }]);
}

function annotationPath(name: string): string {
  return `/metadata/annotations/${name.replaceAll("/", "~1")}`;
}

function elementsOf(current: Pod): readonly (string | undefined)[] {
  const parsed = parseNetworks(current.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  return parsed.ok ? parsed.elements.map((element) => element.interface) : [];
}

async function attachAll(): Promise<void> {
  const parsed = parseNetworks((await pod()).metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  const entries = (parsed.ok ? parsed.elements : []).map((element) => ({
    name: `${element.namespace ?? ""}/${element.name}`,
    interface: element.interface,
    mac: element.mac,
  }));
  const value = JSON.stringify(entries);
  await podPatch([{ op: "add", path: annotationPath(names.NETWORK_STATUS_ANNOTATION), value }]);
}

async function reportInterfaces(interfaces: readonly IfaceStatus[]): Promise<void> {
  const operations = [{ op: "add", path: "/status/interfaces", value: interfaces }] as const;
  const options = { subresource: "status" } as const;
  await admin.store.patch(VIRTUAL_MACHINE_INSTANCES, KEY, { type: "json", operations }, options);
}

async function attachmentStates(): Promise<readonly string[]> {
  return ((await vmi()).status?.attachments ?? []).map(({ name, state }) => `${name} ${state}`);
}

beforeAll(async () => {
  server = await startTestServer();
  admin = await server.client("kubernetes-admin", ["system:masters"]);
});

afterAll(async () => {
  await server.close();
});

beforeEach(startController);

afterEach(async () => {
  await admin.store.delete(VIRTUAL_MACHINES, KEY);
  await eventually(async () => {
    for (const { metadata } of (await admin.store.list(PODS)).items) {
      const key = { namespace: "default", name: metadata.name };
      await admin.store.delete(PODS, key, { gracePeriodSeconds: 0 });
    }
    return (await admin.store.find(VIRTUAL_MACHINE_INSTANCES, KEY)) === undefined;
  }, SOON);
  await stopController();
});

describe("a VM that is to run", () => {
  test("gets MACs, a VMI, and a launcher pod that asks for its networks", async () => {
    await createVm([{ name: "one" }]);
    const made = await pod();
    const mac = (await vm()).spec.template.spec.domain.devices?.interfaces?.[0]?.macAddress;
    expect(mac).toMatch(/^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/);
    expect((await vmi()).spec.domain.devices?.interfaces?.[0]?.macAddress).toBe(mac);
    expect(made.metadata.annotations?.[names.NETWORKS_ANNOTATION]).toContain(mac);
  });

  test("tells the node agent where its pod runs and what the pod has", async () => {
    await createVm([{ name: "one", mac: MAC }]);
    await runPod();
    await attachAll();
    await eventually(async () => (await attachmentStates()).join() === "one Attached", SOON);
    const { metadata, status } = await vmi();
    expect(metadata.labels?.[names.NODE_NAME_LABEL]).toBe("node1");
    expect(Object.values(status?.activePods ?? {})).toEqual(["node1"]);
    expect(status?.phase).toBe("Scheduled");
  });
});

describe("a NIC that is removed from a running VM", () => {
  beforeEach(async () => {
    await createVm([{ name: "one", mac: MAC }]);
    await runPod();
    await attachAll();
    await eventually(async () => (await attachmentStates()).join() === "one Attached", SOON);
    const operations = [
      { op: "replace", path: "/spec/template/spec/networks", value: [] },
      { op: "replace", path: "/spec/template/spec/domain/devices/interfaces", value: [] },
    ] as const;
    await admin.store.patch(VIRTUAL_MACHINES, KEY, { type: "json", operations });
    await eventually(
      async () => (await vmi()).spec.domain.devices?.interfaces?.[0]?.state === "absent",
      SOON,
    );
  });

  test("stays in the pod until the node agent has let go of it, then goes everywhere", async () => {
    await reportInterfaces([{ name: "one", hotplug: { type: "Unplug", phase: "Detaching" } }]);
    expect(await attachmentStates()).toEqual(["one Attached"]);
    expect(elementsOf(await pod())).toHaveLength(1);
    await reportInterfaces([{ name: "one", hotplug: { type: "Unplug", phase: "PodDetaching" } }]);
    await eventually(async () => elementsOf(await pod()).length === 0, SOON);
    expect(await attachmentStates()).toEqual(["one Removing"]);
    await attachAll();
    await eventually(async () => (await attachmentStates()).length === 0, SOON);
    expect((await vmi()).spec.networks).toHaveLength(1);
    await reportInterfaces([]);
    await eventually(async () => (await vmi()).spec.networks?.length === 0, SOON);
  });

  test("the same after virt-controller was started anew in between", async () => {
    await reportInterfaces([{ name: "one", hotplug: { type: "Unplug", phase: "PodDetaching" } }]);
    await eventually(async () => (await attachmentStates()).join() === "one Removing", SOON);
    await stopController();
    await startController();
    await eventually(async () => elementsOf(await pod()).length === 0, SOON);
    await attachAll();
    await reportInterfaces([]);
    await eventually(async () => (await vmi()).spec.networks?.length === 0, SOON);
  });
});
