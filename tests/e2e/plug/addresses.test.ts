// SPDX-License-Identifier: Apache-2.0
// A DHCP guest gets its pod's network settings: on the pod network and on a plugged one, of both families, also after a
// swap, a reboot, and a kill of virt-handler.
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ALL_MS, guestNics } from "../guest.ts";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  guestNic,
  machine,
  removeInterface,
} from "../machine.ts";

const VM = "asks";
const LAN = {
  apiVersion: "k8s.cni.cncf.io/v1",
  kind: "NetworkAttachmentDefinition",
  metadata: { name: "lan", namespace: "default" },
  spec: {
    config: JSON.stringify({
      cniVersion: "0.4.0",
      name: "lan",
      type: "bridge",
      bridge: "pbt-lan",
      mtu: 1400,
      isGateway: true,
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "10.77.7.0/24" }], [{ subnet: "fd77:7::/64" }]],
        routes: [{ dst: "10.50.0.0/16" }, { dst: "::/0" }],
      },
    }),
  },
};

const OLD = {
  ...LAN,
  metadata: { name: "old-lan", namespace: "default" },
  spec: {
    config: JSON.stringify({
      cniVersion: "0.4.0",
      name: "old-lan",
      type: "bridge",
      bridge: "pbt-old-lan",
      ipam: { type: "host-local", ranges: [[{ subnet: "10.78.7.0/24" }]] },
    }),
  },
};

function addressesOf(name: string): readonly string[] {
  const attachments = machine.findVmi(VM)?.status?.attachments ?? [];
  return attachments.find((attachment) => attachment.name === name)?.ips ?? [];
}

/** The settings of an iface's NIC; the server may just be starting. */
async function ask(iface: string, word: "lease" | "lease6"): Promise<string> {
  const nic = await guestNic(VM, (await expectReady(VM, iface)).mac ?? "");
  return eventually(
    async () => {
      const { code, lines } = await machine
        .console(VM)
        .run(`${word} ${nic}`, { timeoutMs: 40_000 });
      return code === 0 ? lines.join("\n") : undefined;
    },
    { withinMs: ALL_MS },
  );
}

async function expectLeases(): Promise<void> {
  const [own = ""] = addressesOf("default");
  expect(own).toMatch(/^10\.88\./);
  expect(await ask("default", "lease")).toMatch(
    new RegExp(
      `lease ${own}/24 mtu 1500 routes 0\\.0\\.0\\.0/0 10\\.88\\.\\S+ dns \\S+ .*hostname ${VM}$`,
      "m",
    ),
  );
  const [ipv4 = "", ipv6 = ""] = addressesOf("lan");
  expect(await ask("lan", "lease")).toContain(
    `lease ${ipv4}/24 mtu 1400 routes 10.50.0.0/16 10.77.7.1 dns  `,
  );
  const reported = await ask("lan", "lease6");
  expect(reported).toContain(`lease6 ${ipv6} `);
  expect(reported).toMatch(/routes6 .*default via fe80::/);
}

beforeAll(async () => {
  machine.apply(LAN, OLD, vmManifest({ name: VM, image: "agent", pcieRootPorts: FEW_PORTS }));
  await machine.booted(VM);
  addInterface(VM, { name: "lan", network: "lan" });
  await expectReady(VM, "lan");
});

afterAll(() => {
  machine.deleteIfPresent("vm", VM);
  const networks = ["lan", "old-lan"];
  machine.deleteIfPresent("net-attach-def", ...networks);
});

test("DHCP works on pod and plugged networks, with routes, MTU and name", async () => {
  await expectLeases();
});

/** The agent is queried half a second and three seconds after a swap. */
const SHOWN_MS = 10_000;

/** Swaps a NIC's network. */
function swapNetwork(iface: string, network: string): void {
  const { networks = [] } = machine.findVm(VM)?.spec.template.spec ?? {};
  const index = networks.findIndex(({ name }) => name === iface);
  const path = `/spec/template/spec/networks/${String(index)}/multus/networkName`;
  machine.patch("vm", VM, [{ op: "replace", path, value: network }]);
}

test("a swap from a single-family network assigns both families, reported promptly", async () => {
  addInterface(VM, { name: "mover", network: "old-lan" });
  const before = await expectReady(VM, "mover");
  expect(await ask("mover", "lease")).toContain("lease 10.78.7.");
  const isShown = (address: string): boolean => {
    const { interfaces = [] } = machine.findVmi(VM)?.status ?? {};
    const { ipAddresses = [] } = interfaces.find(({ name }) => name === "mover") ?? {};
    return ipAddresses.includes(address);
  };
  const [old = ""] = addressesOf("mover");
  await eventually(() => isShown(old), { withinMs: SHOWN_MS });
  swapNetwork("mover", "lan");
  const isThere = async (): Promise<boolean> => {
    const { podInterfaceName } = await expectReady(VM, "mover");
    const { attachments = [] } = machine.findVmi(VM)?.status ?? {};
    // For a moment it has both: the old one is removed after the swap.
    const isAlone = attachments.filter(({ name }) => name === "mover").length === 1;
    return isAlone && podInterfaceName !== before.podInterfaceName;
  };
  await eventually(isThere, { withinMs: CHANGE_MS });
  const [ipv4 = "", ipv6 = ""] = addressesOf("mover");
  expect(await ask("mover", "lease")).toContain(`lease ${ipv4}/24 mtu 1400 `);
  // This guest retains its previous address.
  await eventually(() => isShown(ipv4), { withinMs: SHOWN_MS });
  expect(await ask("mover", "lease6")).toContain(`lease6 ${ipv6} `);
  removeInterface(VM, "mover");
  await expectGone(VM, "mover");
});

test("each NIC has the same address after the guest has rebooted", async () => {
  const before = await guestNics(VM);
  const since = machine.console(VM).position();
  await machine.console(VM).run("reboot");
  await machine.booted(VM, since);
  await expectLeases();
  expect(await guestNics(VM)).toEqual(before);
});

test("DHCP works after virt-handler was killed", async () => {
  const pid = machine.pidOf("virt-handler");
  process.kill(pid, "SIGKILL");
  await eventually(() => machine.pidOf("virt-handler") !== pid, { withinMs: CHANGE_MS });
  await expectLeases();
});
