// SPDX-License-Identifier: Apache-2.0
// vhost-user NICs on the node in memory.
import { createHash } from "node:crypto";
import type { KubeVirt, VirtualMachineInstance } from "@patchbay/api";
import { beforeEach, expect, test } from "vitest";
import { createBench, type Bench } from "../../testing/bench.ts";
import { aScheduledVmi, devicesOf } from "../../testing/scene.ts";

const PATH = "/run/patchbay/vhost-user/pod-uid/one.sock";
const NIC = `pod${createHash("sha256").update("one").digest("hex").slice(0, 11)}`;
const KUBEVIRT: KubeVirt = {
  apiVersion: "kubevirt.io/v1",
  kind: "KubeVirt",
  metadata: { namespace: "patchbay", name: "kubevirt" },
  spec: {
    configuration: {
      developerConfiguration: { useEmulation: true },
      network: { binding: { fast: { domainAttachmentType: "vhostuser" } } },
    },
  },
};

let bench: Bench;

/** NIC "one" uses vhost-user at that socket. */
function aFastVmi(): VirtualMachineInstance {
  const vmi = aScheduledVmi(["one"]);
  const [iface] = vmi.spec.domain.devices?.interfaces ?? [];
  const interfaces = [
    { name: "one", binding: { name: "fast" }, macAddress: iface?.macAddress ?? "" },
  ];
  const deviceInfo = { type: "vhost-user", "vhost-user": { mode: "client", path: PATH } };
  const attachments = (vmi.status?.attachments ?? []).map((each) => ({ ...each, deviceInfo }));
  return {
    ...vmi,
    spec: { ...vmi.spec, domain: { ...vmi.spec.domain, devices: { interfaces } } },
    status: { ...vmi.status, attachments },
  };
}

async function hotplug() {
  const status = (await bench.vmi()).status?.interfaces?.find(({ name }) => name === "one");
  return status?.hotplug;
}

beforeEach(() => {
  bench = createBench(aFastVmi());
  bench.kubevirts.put(KUBEVIRT);
});

test("a VM starts with it when the dataplane runs", async () => {
  bench.vhostSockets.put(PATH);
  await bench.run();
  expect(await hotplug()).toMatchObject({ phase: "Ready" });
  expect(devicesOf(bench)).toEqual(["ua-one"]);
  expect(bench.vhostSockets.findLink("pod-uid", NIC)).toBe(PATH);
  const xml = bench.daemon.readXml("default_vm1", "live") ?? "";
  expect(xml).toContain(`path="/run/launcher/vhost-${NIC}"`);
  expect(xml).toContain('<access mode="shared"/>');
});

test("a VM starts without a dataplane, and gets the NIC with the socket", async () => {
  await bench.run();
  expect(await hotplug()).toMatchObject({ phase: "Wiring", reason: "BackendMissing" });
  expect(devicesOf(bench)).toEqual([]);
  bench.vhostSockets.put(PATH);
  await bench.resume();
  expect(await hotplug()).toMatchObject({ phase: "Ready" });
  expect(devicesOf(bench)).toEqual(["ua-one"]);
});

test("reports a dataplane that stops, and gives a new one a new device", async () => {
  bench.vhostSockets.put(PATH);
  await bench.run();
  bench.vhostSockets.take(PATH);
  await bench.resume();
  expect(await hotplug()).toMatchObject({ phase: "Wiring", reason: "BackendMissing" });
  expect(devicesOf(bench)).toEqual(["ua-one"]);
  bench.vhostSockets.put(PATH);
  await bench.resume();
  expect(await hotplug()).toMatchObject({ phase: "Ready" });
  const calls = bench.daemon.calls.filter((call) => / live/.test(call));
  expect(calls.map((call) => call.split(" ")[0])).toContain("detachDevice");
});

test("rejects a socket that the launcher created", async () => {
  bench.vhostSockets.put(PATH, { kind: "socket", uid: 107 });
  await bench.run();
  expect(await hotplug()).toMatchObject({ reason: "BackendRefused" });
  expect(devicesOf(bench)).toEqual([]);
});
