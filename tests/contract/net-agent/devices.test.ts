// SPDX-License-Identifier: Apache-2.0
// Resource networks: a kubelet's real socket reports a pod's devices, and real host NICs move into the pod. Needs root
// and the plugin host-device.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { names, NETWORK_ATTACHMENT_DEFINITIONS } from "@patchbay/api";
import { TestPodResources } from "@patchbay/device-plugin/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentMachine } from "./machine.ts";
import { NicDevices, PLUGIN, RESOURCE } from "./nic-devices.ts";

const WITHIN_MS = 20_000;
const anyText = expect.any(String) as string;
const NAMESPACE = "default";
const CAPABILITIES = { deviceID: true, CNIDeviceInfoFile: true };

let machine: AgentMachine;
let nics: NicDevices;
let kubelet: TestPodResources;
let devices: readonly string[];

beforeAll(async () => {
  machine = await AgentMachine.start();
  nics = new NicDevices(machine.node);
  devices = nics.make(2);
  await machine.putNad(NAMESPACE, "fast", [{ type: PLUGIN, capabilities: CAPABILITIES }]);
  const fields = { metadata: { annotations: { [names.RESOURCE_NAME_ANNOTATION]: RESOURCE } } };
  const key = { namespace: NAMESPACE, name: "fast" };
  await machine.admin.store.patch(NETWORK_ATTACHMENT_DEFINITIONS, key, { type: "merge", fields });
  kubelet = new TestPodResources(machine.podResourcesSocket);
  kubelet.pods.push({
    namespace: NAMESPACE,
    name: "two",
    containers: [{ [RESOURCE]: devices }, { "vendor.io/other": ["x"] }],
  });
});
afterAll(async () => {
  kubelet.close();
  await machine.close();
});

async function expectErrors(name: string, errors: object): Promise<void> {
  await expect
    .poll(() => machine.errors(NAMESPACE, name), { timeout: WITHIN_MS })
    .toMatchObject(errors);
}

/** Expects these NICs in the pod and these reasons of failed ones. */
async function expectNics(
  name: string,
  wanted: readonly string[],
  reasons: Readonly<Record<string, string>> = {},
): Promise<void> {
  const look = async () => ({
    nics: (await machine.networkStatus(NAMESPACE, name)).map((entry) => entry.interface),
    errors: await machine.errors(NAMESPACE, name),
  });
  const errors = Object.fromEntries(
    Object.entries(reasons).map(([nic, reason]) => [nic, { reason, message: anyText }]),
  );
  await expect.poll(look, { timeout: WITHIN_MS }).toEqual({ nics: wanted, errors });
}

test("without a kubelet the attachment waits and states why; with a kubelet it gets its device", async () => {
  const [device = ""] = devices;
  const info = { type: "pci", version: "1.1.0", pci: { "pci-address": device } };
  const reported = join(machine.deviceInfoDir, "dp");
  mkdirSync(reported, { recursive: true });
  writeFileSync(join(reported, `vendor.io-nic-${device}-device.json`), JSON.stringify(info));
  const limits = { [RESOURCE]: "2" };
  await machine.runPod({ namespace: NAMESPACE, name: "two", networks: "fast", limits });
  await expectErrors("two", {
    net1: {
      reason: "NoDevice",
      message: expect.stringContaining(machine.podResourcesSocket) as string,
    },
  });
  await kubelet.start();
  await expectNics("two", ["net1"]);
  expect(await machine.networkStatus(NAMESPACE, "two")).toMatchObject([{ "device-info": info }]);
  const [file = ""] = nics.infoFiles(machine.deviceInfoDir);
  expect(nics.given("ADD", "net1")).toMatchObject({
    deviceID: device,
    pciBusID: device,
    runtimeConfig: {
      deviceID: device,
      CNIDeviceInfoFile: join(machine.deviceInfoDir, "cni", file),
    },
  });
  expect(nics.onHost(devices)).toEqual(devices.slice(1));
});

test("the next attachment gets the other device, and the third waits until one is free", async () => {
  await machine.ask(NAMESPACE, "two", "fast@net1,fast@net2,fast@net3");
  await expectNics("two", ["net1", "net2"], { net3: "NoDevice" });
  expect(nics.given("ADD", "net2").deviceID).toBe(devices[1]);
  expect(nics.onHost(devices)).toEqual([]);
  await machine.ask(NAMESPACE, "two", "fast@net2,fast@net3");
  await expectNics("two", ["net2", "net3"]);
  expect(nics.given("DEL", "net1").deviceID).toBe(devices[0]);
  expect(nics.given("ADD", "net3").deviceID).toBe(devices[0]);
  expect(await machine.errors(NAMESPACE, "two")).toEqual({});
});

test("returns the devices to the host and removes them from the status", async () => {
  await machine.ask(NAMESPACE, "two", "");
  await expectNics("two", []);
  expect(nics.onHost(devices)).toEqual(devices);
  expect(nics.infoFiles(machine.deviceInfoDir)).toEqual([]);
});
