// SPDX-License-Identifier: Apache-2.0
// Plugins that need optional kernel drivers (VLANs, ipvlan, VRFs), on Debian's kernel in one guest.
import { createCni, findNetworkStatus } from "@patchbay/cni";
import type { AttachmentRequest, NetworkConfigList } from "@patchbay/core/interfaces";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PluginGuest } from "./plugin-guest.ts";

type Plugins = NetworkConfigList["plugins"];

const IPAM = { type: "host-local", ranges: [[{ subnet: "10.59.0.0/24" }]] };
const BRIDGE = { type: "bridge", bridge: "b0", ipam: IPAM };
/** The guest's shell has a builtin named ip. */
const IP = "/sbin/ip";
const LEASES = "ls /var/lib/cni/networks/row 2>/dev/null | grep ^1 || true";

let guest: PluginGuest;

beforeAll(async () => {
  guest = await PluginGuest.boot();
  await guest.sh(`${IP} link add p0 type dummy && ${IP} link set p0 up`);
}, 180_000);

afterAll(() => {
  guest.close();
});

interface Row {
  readonly name: string;
  readonly plugins: Plugins;
  /** The NIC's type by `ip -d link`. */
  readonly kind: string;
  /** A command in the guest while the network is attached, and its output. */
  readonly look: { readonly command: string; readonly says: RegExp };
}

const ROWS: readonly Row[] = [
  {
    name: "bridge with a VLAN",
    plugins: [{ ...BRIDGE, vlan: 5 }],
    kind: "veth",
    look: { command: "bridge vlan show", says: /\s5 PVID Egress Untagged/ },
  },
  {
    name: "bridge with a trunk of VLANs",
    plugins: [
      { ...BRIDGE, bridge: "b1", vlan: 7 },
      { type: "tuning", mtu: 1400 },
    ],
    kind: "veth",
    look: { command: "cat /sys/class/net/b1/bridge/vlan_filtering", says: /^1$/m },
  },
  {
    name: "vlan",
    plugins: [{ type: "vlan", master: "p0", vlanId: 9, ipam: IPAM }],
    kind: "vlan",
    look: { command: "/sbin/ip -n pod -d link show net1", says: /vlan protocol 802.1Q id 9 / },
  },
  {
    name: "ipvlan",
    plugins: [{ type: "ipvlan", master: "p0", mode: "l2", ipam: IPAM }],
    kind: "ipvlan",
    look: { command: "/sbin/ip -n pod -d link show net1", says: /ipvlan +mode l2/ },
  },
  {
    name: "vrf behind bridge",
    plugins: [BRIDGE, { type: "vrf", vrfname: "blue" }],
    kind: "veth",
    look: { command: "/sbin/ip -n pod link show master blue", says: /net1/ },
  },
];

function requestOf(plugins: Plugins): AttachmentRequest {
  return {
    containerId: "pod",
    netnsPath: "/run/netns/pod",
    interfaceName: "net1",
    config: { cniVersion: "1.0.0", name: "row", plugins },
    capabilityArgs: {},
    args: [["IgnoreUnknown", "1"]],
  };
}

/** The pod's NICs and types, without loopback and VRFs. */
async function nics(): Promise<readonly string[]> {
  const links = JSON.parse(await guest.sh(`${IP} -n pod -j -d link`)) as readonly {
    readonly ifname: string;
    readonly linkinfo?: { readonly info_kind?: string };
  }[];
  return links
    .filter(({ ifname }) => ifname !== "lo")
    .map(({ ifname, linkinfo }) => `${ifname} ${linkinfo?.info_kind ?? ""}`)
    .filter((nic) => !nic.endsWith(" vrf"));
}

test.each(ROWS)("$name", async ({ plugins, kind, look }) => {
  await guest.sh(`${IP} netns add pod`);
  const cni = createCni({ runner: guest, binDirs: ["/usr/lib/cni"], family: "guest" });
  const request = requestOf(plugins);
  const result = await cni.add(request);
  expect(await nics()).toEqual([`net1 ${kind}`]);
  const [lease] = (await guest.sh(LEASES)).split("\n");
  expect(findNetworkStatus(result, "ns1/row", "net1").ips).toEqual([lease]);
  expect(await guest.sh(look.command)).toMatch(look.says);
  await cni.del(request, result);
  expect(await nics()).toEqual([]);
  expect(await guest.sh(LEASES)).toBe("");
  await guest.sh(`${IP} netns del pod`);
});
