// SPDX-License-Identifier: Apache-2.0
// Services for networks of VMs, against an API server; the test acts as the node.
import { ENDPOINT_SLICES, names, NETWORK_ATTACHMENT_DEFINITIONS, SERVICES } from "@patchbay/api";
import type { EndpointSlice } from "@patchbay/api/kubernetes";
import { pointerToken } from "@patchbay/core/status";
import { eventually } from "@patchbay/support";
import { beforeEach, expect, test } from "vitest";
import { startController } from "./testing/controllers.ts";
import { useStage } from "./testing/component-environment.ts";

const SOON = { withinMs: 5000 };
const stage = useStage();
const NAD = { namespace: "default", name: "blue" };
const SERVICE = { namespace: "default", name: "web" };

async function slices(): Promise<readonly EndpointSlice[]> {
  return (await stage.admin.store.list(ENDPOINT_SLICES)).items;
}

async function told(): Promise<string> {
  const endpoints = (await slices()).flatMap((slice) => slice.endpoints ?? []);
  return endpoints
    .map(({ addresses, conditions }) => `${addresses.join()} ${String(conditions?.ready)}`)
    .join();
}

async function toldSoon(words: string): Promise<void> {
  await eventually(async () => (await told()) === words, SOON);
}

/** Assigns the pod an address on the network. */
async function giveAddress(ip: string): Promise<void> {
  const [element] = await stage.scene.elements();
  const entry = { name: "default/blue", interface: element?.interface, ips: [ip] };
  const path = `/metadata/annotations/${pointerToken(names.NETWORK_STATUS_ANNOTATION)}`;
  await stage.scene.patchPodStatus([{ op: "add", path, value: JSON.stringify([entry]) }]);
}

beforeEach(async () => {
  const { kind } = NETWORK_ATTACHMENT_DEFINITIONS;
  const config = { type: "bridge", ipam: { type: "host-local", subnet: "10.77.1.0/24" } };
  await stage.admin.store.create(NETWORK_ATTACHMENT_DEFINITIONS, {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind,
    metadata: NAD,
    spec: { config: JSON.stringify(config) },
  });
  return async () => {
    await stage.admin.store.delete(SERVICES, SERVICE);
    await stage.admin.store.delete(NETWORK_ATTACHMENT_DEFINITIONS, NAD);
    await toldSoon("");
  };
});

async function serve(): Promise<void> {
  await stage.scene.createVm([{ name: "one" }]);
  await stage.scene.boot();
  await giveAddress("10.77.1.5");
  await stage.scene.vmiWhen(({ status }) => status?.attachments?.[0]?.state === "Attached");
  const hotplug = { type: "Plug", phase: "Ready" } as const;
  await stage.scene.reportVmi({ interfaces: [{ name: "one", hotplug }] });
  await stage.admin.store.create(SERVICES, {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      ...SERVICE,
      annotations: {
        [names.SERVICE_NETWORK_ANNOTATION]: "blue",
        [names.SERVICE_SELECTOR_ANNOTATION]: `${names.VM_NAME_LABEL}=vm1`,
      },
    },
    spec: { ports: [{ port: 80 }] },
  });
  await toldSoon("10.77.1.5 true");
}

test("a Service follows the VM's address on the network", async () => {
  await serve();
  await giveAddress("10.77.1.6");
  await toldSoon("10.77.1.6 true");
  const hotplug = { type: "Unplug", phase: "Detaching" } as const;
  await stage.scene.reportVmi({ interfaces: [{ name: "one", hotplug }] });
  await toldSoon("10.77.1.6 false");
  await stage.scene.deleteVmi();
  await toldSoon("10.77.1.6 false");
  await stage.scene.removePod();
  await toldSoon("");
  expect((await slices()).map(({ metadata }) => metadata.name)).toEqual([]);
});

test("a restarted controller writes nothing if everything is up to date", async () => {
  await serve();
  await stage.controller.stop();
  const [before] = await slices();
  stage.controller = await startController(stage.server);
  await giveAddress("10.77.1.6");
  await toldSoon("10.77.1.6 true");
  const writes = stage.controller.calls.filter((call) => call.includes("endpointslices"));
  expect(writes).toHaveLength(1);
  expect((await slices()).map(({ metadata }) => metadata.uid)).toEqual([before?.metadata.uid]);
});
