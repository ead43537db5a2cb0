// SPDX-License-Identifier: Apache-2.0
// A guest gets its default route from the network that its VM names, and a Service on that network answers other networks.
import { execFileSync } from "node:child_process";
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHANGE_MS, expectReady, guestNic, machine } from "../machine.ts";

const [VM, CLIENT, NETWORK, SERVICE] = ["way-out", "beta", "way-out", "way-out"];
const [NIC, BRIDGE, SUBNET, GATEWAY] = ["out", "pbt-out", "10.77.9.0/24", "10.77.9.1"];
const PORT = 8091;

async function inGuest(vm: string, command: string): Promise<string> {
  return eventually(
    async () => {
      const { code, lines } = await machine.console(vm).run(command, { timeoutMs: CHANGE_MS });
      return code === 0 ? lines.join("\n") : undefined;
    },
    { withinMs: CHANGE_MS },
  );
}

beforeAll(async () => {
  const ipam = { type: "host-local", subnet: SUBNET, routes: [{ dst: "0.0.0.0/0" }] };
  const plugin = { type: "bridge", bridge: BRIDGE, isGateway: true, ipam };
  machine.apply({
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name: NETWORK, namespace: "default" },
    spec: { config: JSON.stringify({ cniVersion: "0.4.0", name: BRIDGE, ...plugin }) },
  });
  const nics = [
    { name: "default", binding: "masquerade" as const },
    { name: NIC, network: NETWORK },
  ];
  const annotations = { "patchbay.io/default-route": NIC };
  machine.apply(vmManifest({ name: VM, nics, annotations, pcieRootPorts: FEW_PORTS }));
  await machine.booted(VM);
});

afterAll(() => {
  machine.deleteIfPresent("service", SERVICE);
  machine.deleteIfPresent("vm", VM);
  machine.deleteIfPresent("net-attach-def", NETWORK);
  execFileSync("ip", ["link", "del", BRIDGE]);
});

async function lease(vm: string, iface: string): Promise<string> {
  const { mac = "" } = await expectReady(vm, iface);
  return inGuest(vm, `lease ${await guestNic(vm, mac)}`);
}

test("the named network has the default route, and the pod network only its own routes", async () => {
  expect(await lease(VM, NIC)).toContain(` routes 0.0.0.0/0 ${GATEWAY} `);
  const podLease = await lease(VM, "default");
  expect(podLease).toMatch(/ routes (?:\S+\/32 10\.0\.2\.1 )?/);
  expect(podLease).not.toContain("0.0.0.0/0");
});

test("a Service on the network answers a guest that is only on the pod network", async () => {
  await inGuest(VM, `serve ${String(PORT)}`);
  await lease(CLIENT, "default");
  const annotations = {
    "k8s.v1.cni.cncf.io/service-network": NETWORK,
    "patchbay.io/service-selector": `vm.kubevirt.io/name=${VM}`,
  };
  machine.apply({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: SERVICE, annotations },
    spec: { ports: [{ port: 80, targetPort: PORT }] },
  });
  const read = () =>
    machine.read(`/api/v1/namespaces/default/services/${SERVICE}`) as {
      readonly spec: { readonly clusterIP: string };
      readonly status?: { readonly conditions?: readonly unknown[] };
    };
  const { clusterIP } = read().spec;
  // Until the Service has endpoints, its address refuses connections.
  await expect
    .poll(() => inGuest(CLIENT, `fetch ${clusterIP} 80`), { timeout: CHANGE_MS })
    .toContain("fetched 00:00:00:00:00:00");
  await expect
    .poll(() => read().status?.conditions, { timeout: CHANGE_MS })
    .toMatchObject([
      { type: "patchbay.io/NetworkReachable", status: "True", reason: "NodeAddress" },
    ]);
});
