// SPDX-License-Identifier: Apache-2.0
// On a network without IPAM, the status shows the addresses of guests without an agent. Guards and Services do not use them.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { eventually, netnsOfPod, networkManifest, bridgeNetworkManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  guestNic,
  ifaceStatus,
  machine,
  ping,
  removeInterface,
  setAddress,
} from "../machine.ts";

/** The first guest has a lease. The second has a static address, and its send guard allows no other. */
const [LEASING, GUARDED] = ["alpha", "beta"];
const [NETWORK, BRIDGE, NIC, SERVICE] = ["unmanaged", "pbt-learn", "learned", "learned"];
const [LEASE, HOST] = ["10.87.18.50", "10.87.18.1"];
const [STATIC, STATIC_HOST] = ["10.87.17.2", "10.87.17.1"];
/** The network's own DHCP server. Source: dnsmasq(8) */
const DNSMASQ = [
  "--keep-in-foreground",
  "--log-facility=-",
  "--conf-file=/dev/null",
  "--pid-file=",
  "--user=root",
  "--port=0",
  `--interface=${BRIDGE}`,
  "--except-interface=lo",
  "--bind-interfaces",
  "--leasefile-ro",
  "--no-ping",
  `--dhcp-range=${LEASE},${LEASE},1h`,
] as const;

let server: ChildProcess;

function ip(...args: readonly string[]): void {
  execFileSync("ip", args);
}

function addGuardedInterface(): void {
  const base = "/spec/template/spec";
  const portSecurity = { mode: "Addresses", allowedAddresses: [STATIC] };
  machine.patch("vm", GUARDED, [
    {
      op: "add",
      path: `${base}/networks/-`,
      value: networkManifest({ name: NIC, network: NETWORK }),
    },
    {
      op: "add",
      path: `${base}/domain/devices/interfaces/-`,
      value: { name: NIC, bridge: {}, portSecurity },
    },
  ]);
}

beforeAll(async () => {
  ip("link", "add", BRIDGE, "type", "bridge");
  for (const host of [HOST, STATIC_HOST]) ip("addr", "add", `${host}/24`, "dev", BRIDGE);
  ip("link", "set", BRIDGE, "up");
  server = spawn("dnsmasq", DNSMASQ, { stdio: "ignore" });
  machine.apply(bridgeNetworkManifest(NETWORK, BRIDGE));
  addInterface(LEASING, { name: NIC, network: NETWORK });
  addGuardedInterface();
  for (const vm of [LEASING, GUARDED]) await expectReady(vm, NIC);
});

afterAll(async () => {
  machine.deleteIfPresent("service", SERVICE);
  for (const vm of [LEASING, GUARDED]) removeInterface(vm, NIC);
  for (const vm of [LEASING, GUARDED]) await expectGone(vm, NIC);
  machine.deleteIfPresent("net-attach-def", NETWORK);
  const ended = once(server, "exit");
  server.kill();
  await ended;
  ip("link", "del", BRIDGE);
});

async function expectAddresses(vm: string, ...wanted: readonly string[]): Promise<void> {
  await expect
    .poll(() => ifaceStatus(vm, NIC)?.ipAddresses ?? [], { timeout: CHANGE_MS })
    .toEqual(wanted);
}

/** Lists the nftables rules of the VM's pod, without counters. */
function listRules(vm: string): string {
  const { path } = netnsOfPod(machine.dataDir, machine.findPod(vm)?.metadata.uid ?? "");
  const args = [`--net=${path}`, "nft", "--stateless", "list", "ruleset"];
  return execFileSync("nsenter", args, { encoding: "utf8" });
}

test("a NIC whose guest has announced no address has none in the status", () => {
  const status = ifaceStatus(LEASING, NIC);
  expect(status).toMatchObject({ infoSource: "domain, multus-status" });
  expect(status).not.toHaveProperty("ipAddress");
  expect(status).not.toHaveProperty("addressInfo");
});

test("an address that the network's DHCP server assigns is shown", async () => {
  const { mac = "" } = await expectReady(LEASING, NIC);
  const command = `lease ${await guestNic(LEASING, mac)}`;
  const { lines } = await machine.console(LEASING).run(command, { timeoutMs: CHANGE_MS });
  expect(lines.join("\n")).toContain(`lease ${LEASE}/`);
  await expectAddresses(LEASING, LEASE);
  expect(ifaceStatus(LEASING, NIC)).toMatchObject({
    infoSource: "domain, multus-status, learned",
    ipAddress: LEASE,
    addressInfo: { source: "learned" },
  });
});

test("a static address is shown when the guest uses it", async () => {
  await setAddress(GUARDED, NIC, `${STATIC}/24`);
  expect(await ping(GUARDED, STATIC_HOST)).toMatchObject({ received: 3 });
  await expectAddresses(GUARDED, STATIC);
});

test("another guest's address is shown as announced, but guards, Services and that guest do not follow", async () => {
  const annotations = {
    "k8s.v1.cni.cncf.io/service-network": NETWORK,
    "patchbay.io/service-selector": `vm.kubevirt.io/name=${GUARDED}`,
  };
  machine.apply({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: SERVICE, annotations },
    spec: { ports: [{ port: 80 }] },
  });
  const rules = [LEASING, GUARDED].map(listRules);
  expect(rules[1]).toContain(STATIC);
  await setAddress(GUARDED, NIC, `${LEASE}/24`);
  expect(await ping(GUARDED, HOST, { count: 1 })).toMatchObject({ received: 0 });
  await expectAddresses(GUARDED, LEASE, STATIC);
  expect([LEASING, GUARDED].map(listRules)).toEqual(rules);
  expect(ifaceStatus(LEASING, NIC)?.ipAddresses).toEqual([LEASE]);
  expect(await ping(LEASING, HOST)).toMatchObject({ received: 3 });
  const readService = () =>
    machine.read(`/api/v1/namespaces/default/services/${SERVICE}`) as {
      readonly status?: { readonly conditions?: readonly { readonly type: string }[] };
    };
  await eventually(() => readService().status?.conditions?.[0], { withinMs: CHANGE_MS });
  const slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
  const query = `labelSelector=kubernetes.io/service-name%3D${SERVICE}`;
  expect(machine.read(`${slices}?${query}`)).toMatchObject({ items: [] });
});
