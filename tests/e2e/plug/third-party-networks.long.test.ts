// SPDX-License-Identifier: Apache-2.0
// Networks that pass only frames from the MAC that they assigned, as Cilium, Kube-OVN and OVN-Kubernetes do, and networks whose
// definition is edited.
import { execFileSync } from "node:child_process";
import {
  eventually,
  FEW_PORTS,
  installThirdPartyCni,
  thirdPartyNetwork,
  vmManifest,
} from "@patchbay/support";
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
  SUBRESOURCES,
} from "../machine.ts";

const VM = "macs";
const MAC = "02:00:00:00:aa:01";
/** Subnets of the networks, without the last byte. */
const NETWORKS = { pins: "10.87.1", chooses: "10.87.2" } as const;
type Network = keyof typeof NETWORKS;
const NAMES: readonly Network[] = ["pins", "chooses"];

const cni = installThirdPartyCni();

beforeAll(async () => {
  const networks = NAMES.map((behavior) =>
    thirdPartyNetwork(cni, {
      behavior,
      bridge: `pbt-${behavior}`,
      subnet: `${NETWORKS[behavior]}.0/24`,
    }),
  );
  machine.apply(...networks, vmManifest({ name: VM, image: "agent", pcieRootPorts: FEW_PORTS }));
  await machine.booted(VM);
});

afterAll(() => {
  machine.deleteIfPresent("vm", VM);
  machine.deleteIfPresent("net-attach-def", ...NAMES);
  for (const name of NAMES) execFileSync("ip", ["link", "del", `pbt-${name}`]);
  cni.remove();
});

function attachmentOf(name: string) {
  return machine.findVmi(VM)?.status?.attachments?.find((each) => each.name === name);
}

/** Returns the NIC's MAC. Pings the network's gateway, which replies only if the network passes the guest's frames. */
async function expectTraffic(name: Network): Promise<string> {
  const { mac = "" } = await expectReady(VM, name);
  const { mac: assigned, ips = [] } = attachmentOf(name) ?? {};
  expect(mac).toBe(assigned);
  expect(await guestNic(VM, mac)).toMatch(/^eth/);
  await setAddress(VM, name, `${ips[0] ?? ""}/24`);
  expect(await ping(VM, `${NETWORKS[name]}.1`)).toMatchObject({ received: 3 });
  return mac;
}

function changedMacs(): readonly string[] {
  return machine
    .events()
    .filter(({ reason }) => reason === "MacChanged")
    .map(({ message }) => message);
}

const macs = new Map<Network, string>();

test.each(NAMES)("a guest's NIC has the MAC that network '%s' assigned", async (name) => {
  addInterface(VM, { name, network: name });
  macs.set(name, await expectTraffic(name));
});

test("a NIC is not plugged if the network assigns another MAC than the user requested", async () => {
  const body = { name: "own", networkAttachmentDefinitionName: "chooses", macAddress: MAC };
  expect(machine.put(`${SUBRESOURCES}/virtualmachines/${VM}/addinterface`, body).code).toBe(0);
  const { message = "" } = await eventually(
    () => {
      const { hotplug } = ifaceStatus(VM, "own") ?? {};
      return hotplug?.reason === "RequestNotMet" ? hotplug : undefined;
    },
    { withinMs: CHANGE_MS },
  );
  expect(message).toContain(`instead of the requested ${MAC}`);
  const { lines } = await machine.console(VM).run("report");
  expect(lines.join("\n")).not.toContain(MAC);
  removeInterface(VM, "own");
  await expectGone(VM, "own");
});

test("after a restart the guest has its previous MAC, or the one that the network chose instead", async () => {
  await eventually(() => machine.findVm(VM)?.status?.macAddresses?.length === NAMES.length + 1, {
    withinMs: CHANGE_MS,
  });
  await restart(VM);
  expect(await expectTraffic("pins")).toBe(macs.get("pins"));
  const mac = await expectTraffic("chooses");
  expect(mac).not.toBe(macs.get("chooses"));
  const reported = await eventually(() => changedMacs().find((text) => text.includes(mac)), {
    withinMs: CHANGE_MS,
  });
  expect(reported).toContain(`it had ${macs.get("chooses") ?? ""} before`);
  await eventually(
    () => machine.findVm(VM)?.status?.macAddresses?.some((each) => each.macAddress === mac),
    { withinMs: CHANGE_MS },
  );
});

test("reports an edited definition on the NIC until the NIC is plugged again", async () => {
  const hotplug = () => ifaceStatus(VM, "pins")?.hotplug;
  machine.apply(
    thirdPartyNetwork(cni, {
      behavior: "pins",
      bridge: "pbt-pins",
      subnet: `${NETWORKS.pins}.0/24`,
      mtu: 1400,
    }),
  );
  await eventually(() => hotplug()?.reason === "NetworkChanged", { withinMs: CHANGE_MS });
  expect(hotplug()).toMatchObject({ phase: "Ready" });
  expect(hotplug()?.message).toContain("plugins[0].mtu");
  removeInterface(VM, "pins");
  await expectGone(VM, "pins");
  addInterface(VM, { name: "pins", network: "pins" });
  await expectTraffic("pins");
  expect(hotplug()?.reason).toBeUndefined();
});
