// SPDX-License-Identifier: Apache-2.0
// VMs whose pods have the network of a NetworkAttachmentDefinition in place of the pod network.
import { execFileSync } from "node:child_process";
import { names } from "@patchbay/api";
import { parseNetworkStatus } from "@patchbay/api/annotations";
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { restart } from "../guest.ts";
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

const VMS = { masquerade: "own-hidden", bridge: "own-bridged" } as const;
/** Subnets of the networks, without the last byte. */
const SUBNETS = { primary: "10.87.5", beside: "10.87.6" } as const;
type Network = keyof typeof SUBNETS;
const NETWORKS: readonly Network[] = ["primary", "beside"];

function linkOf(network: Network): string {
  return `pbo-${network}`;
}

function definition(name: Network): unknown {
  const subnet = `${SUBNETS[name]}.0/24`;
  const routes = name === "primary" ? [{ dst: "0.0.0.0/0" }] : [];
  const ipam = { type: "host-local", ranges: [[{ subnet }]], routes };
  const plugin = { type: "bridge", bridge: linkOf(name), isGateway: true, ipam };
  const config = { cniVersion: "1.0.0", name: linkOf(name), plugins: [plugin] };
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: { config: JSON.stringify(config) },
  };
}

beforeAll(async () => {
  const nic = { name: "main", network: "primary", isDefault: true } as const;
  machine.apply(
    ...NETWORKS.map(definition),
    vmManifest({
      name: VMS.masquerade,
      nics: [{ ...nic, binding: "masquerade" }],
      pcieRootPorts: FEW_PORTS,
    }),
    vmManifest({ name: VMS.bridge, nics: [nic], pcieRootPorts: FEW_PORTS }),
  );
  await Promise.all(Object.values(VMS).map((vm) => machine.booted(vm)));
});

afterAll(() => {
  machine.deleteIfPresent("vm", ...Object.values(VMS));
  machine.deleteIfPresent("net-attach-def", ...NETWORKS);
  for (const network of NETWORKS) execFileSync("ip", ["link", "del", linkOf(network)]);
});

async function run(vm: string, command: string): Promise<string> {
  return eventually(
    async () => {
      const { code, lines } = await machine.console(vm).run(command, { timeoutMs: CHANGE_MS });
      return code === 0 ? lines.join("\n") : undefined;
    },
    { withinMs: CHANGE_MS },
  );
}

function podAddress(vm: string): string {
  return machine.findPod(vm)?.status?.podIP ?? "";
}

/** Obtains the guest's lease on the default network. */
async function lease(vm: string): Promise<string> {
  const { mac = "" } = await expectReady(vm, "main");
  return run(vm, `lease ${await guestNic(vm, mac)}`);
}

test.each(Object.values(VMS))("the pod of VM '%s' is on the network only", async (vm) => {
  await expectReady(vm, "main");
  const { metadata } = machine.findPod(vm) ?? {};
  const { annotations = {} } = metadata ?? {};
  expect(annotations[names.DEFAULT_NETWORK_ANNOTATION]).toBe("default/primary");
  const entries = parseNetworkStatus(annotations[names.NETWORK_STATUS_ANNOTATION]);
  expect(entries).toMatchObject([{ name: "default/primary", interface: "eth0", default: true }]);
  expect(entries[0]?.ips).toEqual([podAddress(vm)]);
  expect(podAddress(vm)).toMatch(/^10\.87\.5\.\d+$/);
  expect(ifaceStatus(vm, "main")).toMatchObject({
    podInterfaceName: "eth0",
    ipAddress: podAddress(vm),
  });
});

test("a guest behind a masquerade reaches the network's gateway from the pod's address", async () => {
  expect(await lease(VMS.masquerade)).toContain("lease 10.0.2.2/24 ");
  expect(await ping(VMS.masquerade, `${SUBNETS.primary}.1`)).toMatchObject({ received: 3 });
});

test("a bridged guest has the pod's address, its gateway, and reaches the other guest's pod", async () => {
  expect(await lease(VMS.bridge)).toContain(
    `lease ${podAddress(VMS.bridge)}/24 mtu 1500 routes 0.0.0.0/0 ${SUBNETS.primary}.1 `,
  );
  expect(await ping(VMS.bridge, `${SUBNETS.primary}.1`)).toMatchObject({ received: 3 });
  expect(await ping(VMS.masquerade, podAddress(VMS.bridge))).toMatchObject({ received: 3 });
});

test.each(Object.values(VMS))("a second NIC is plugged into VM '%s' and unplugged", async (vm) => {
  addInterface(vm, { name: "beside", network: "beside" });
  await expectReady(vm, "beside");
  const attachments = machine.findVmi(vm)?.status?.attachments ?? [];
  expect(attachments.map(({ name, networkName }) => [name, networkName])).toEqual([
    ["main", "default/primary"],
    ["beside", "default/beside"],
  ]);
  const [address = ""] = attachments[1]?.ips ?? [];
  expect(address).toMatch(/^10\.87\.6\.\d+$/);
  await setAddress(vm, "beside", `${address}/24`);
  expect(await ping(vm, `${SUBNETS.beside}.1`)).toMatchObject({ received: 3 });
  removeInterface(vm, "beside");
  await expectGone(vm, "beside");
  expect(await ping(vm, `${SUBNETS.primary}.1`)).toMatchObject({ received: 3 });
});

test("the NIC on the default network cannot be unplugged", () => {
  expect(() => {
    removeInterface(VMS.bridge, "main");
  }).toThrow("is on the default network of the pod and cannot be removed");
});

test("a bridged guest keeps its MAC on the network when the VM restarts", async () => {
  const { mac } = await expectReady(VMS.bridge, "main");
  await eventually(() => machine.findVm(VMS.bridge)?.status?.macAddresses?.length === 1, {
    withinMs: CHANGE_MS,
  });
  expect(machine.findVm(VMS.bridge)?.status?.macAddresses).toEqual([
    { name: "main", networkName: "default/primary", macAddress: mac },
  ]);
  await restart(VMS.bridge);
  expect(await expectReady(VMS.bridge, "main")).toMatchObject({ mac });
  expect(await lease(VMS.bridge)).toContain(`lease ${podAddress(VMS.bridge)}/24 `);
});

test("the addresses of deleted VMs are released", async () => {
  machine.delete("vm", ...Object.values(VMS));
  const leases = () =>
    execFileSync("ls", [`/var/lib/cni/networks/${linkOf("primary")}`], { encoding: "utf8" });
  await eventually(() => !leases().includes(`${SUBNETS.primary}.`), { withinMs: CHANGE_MS }).catch(
    () => undefined,
  ); // the comparison below shows it
  expect(leases()).not.toMatch(/^10\./m);
});
