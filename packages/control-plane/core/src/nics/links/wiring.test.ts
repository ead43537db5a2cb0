// SPDX-License-Identifier: Apache-2.0
import type { ClusterSecurity, Iface, Network } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import {
  buildWiring,
  type WiredIface,
  findOrphanedWirings,
  type LinkOwners,
} from "../node-plan.ts";
import { NO_LINKS, type IfaceFacts } from "../facts.ts";

const MAC = "02:00:00:00:5e:01";
const POD: Network = { name: "one", pod: {} };
const BLUE: Network = { name: "one", multus: { networkName: "blue" } };

function ifaceOn(network: Network, iface: Omit<Iface, "name">, more: Partial<WiredIface> = {}) {
  const kind = iface.masquerade === undefined ? "bridge" : "masquerade";
  return buildWiring({
    name: "one",
    iface: { name: "one", ...iface },
    network,
    binding: { kind },
    podInterfaceName: network.pod === undefined ? "pod1" : "eth0",
    links: { mac: MAC, mtu: 1400, addresses: ["10.88.0.5/24", "fd88::5/64"] },
    ...more,
  });
}

describe("the links of an iface", () => {
  test("behind the pod have the guest's addresses, and hold it to them", () => {
    const ports = [{ port: 80 }];
    const portRanges = [{ protocol: "UDP", start: 1, end: 9 }];
    expect(ifaceOn(POD, { masquerade: {}, ports, portRanges })).toEqual({
      kind: "masquerade",
      podInterfaceName: "eth0",
      bridgeName: "k6t-eth0",
      tapName: "tap0",
      mac: MAC,
      mtu: 1400,
      ipv4: { gateway: "10.0.2.1/24", guest: "10.0.2.2" },
      ipv6: { gateway: "fd10:0:2::1/120", guest: "fd10:0:2::2" },
      ports: [
        { protocol: "tcp", first: 80, last: 80 },
        { protocol: "udp", first: 1, last: 9 },
      ],
      guard: {
        macs: [MAC],
        allowsServers: false,
        addresses: ["10.0.2.2", "fd10:0:2::2", "fe80::/10", "fe80::ff:fe00:5e01"],
      },
    });
  });

  test("on the pod network hold the guest to the addresses that were the pod's", () => {
    const remembered = {
      podInterfaceName: "eth0",
      index: 2,
      addresses: ["10.88.0.5/24"],
      routes: [],
    };
    expect(ifaceOn(POD, { bridge: {} }, { remembered })?.guard?.addresses).toEqual([
      "10.88.0.5",
      "fe80::ff:fe00:5e01",
    ]);
  });

  test("filter by the cluster's policy and the addresses that the plugin left on the NIC", () => {
    const security: ClusterSecurity = { mode: "Addresses", enforced: false };
    const links = { mac: MAC, mtu: 1400, addresses: ["10.9.0.1/24"] };
    const more: Partial<WiredIface> = { binding: { kind: "tap" }, links };
    expect(ifaceOn(BLUE, { bridge: {} }, more)?.guard).toBeUndefined();
    expect(ifaceOn(BLUE, { bridge: {} }, { ...more, security })?.guard?.addresses).toEqual([
      "10.9.0.1",
      "fe80::ff:fe00:5e01",
    ]);
  });

  test("do not depend on the pod's annotations", () => {
    const text = { mac: "02:00:00:00:5e:02", ips: ["10.88.0.1"] };
    const attachment = { name: "one", state: "Attached" as const, ...text };
    const remembered = {
      podInterfaceName: "eth0",
      index: 2,
      addresses: ["10.88.0.5/24"],
      routes: [],
    };
    const reported = { attachment: { ...attachment, podInterfaceName: "eth0" }, remembered };
    expect(ifaceOn(POD, { bridge: {} }, reported)).toEqual(
      ifaceOn(POD, { bridge: {} }, { remembered }),
    );
  });

  test("of a guest that has the NIC hold it to the MAC of its device", () => {
    const mac = "02:00:00:00:5e:09";
    const device = { alias: "ua-one", mac, linkUp: true, queues: 1 };
    expect(ifaceOn(POD, { bridge: {} }, { device })?.guard?.macs).toEqual([mac]);
  });
});

const HASH = "0123456789a";
const POD_NIC = `pod${HASH}`;
const BRIDGE = { name: `k6t-${HASH}`, kind: "bridge", carrier: false };
const TAP = { name: `tap${HASH}`, kind: "tun", carrier: false };
const NO_USER: LinkOwners = { ifaces: [], attachments: [], nics: [] };
const LEFTOVER = {
  kind: "bridge",
  podInterfaceName: POD_NIC,
  bridgeName: BRIDGE.name,
  tapName: TAP.name,
};
const IFACE: IfaceFacts = {
  name: "one",
  podInterfaceName: POD_NIC,
  binding: { kind: "bridge" },
  links: NO_LINKS,
};
const ELSEWHERE: IfaceFacts = { ...IFACE, podInterfaceName: "pod00000000001" };

test.each([
  { name: "a bridge", links: [BRIDGE] },
  { name: "a tap", links: [TAP] },
  { name: "both", links: [TAP, BRIDGE] },
])("$name of nobody's is left of one wiring", ({ links }) => {
  expect(findOrphanedWirings(links, NO_USER)).toEqual([LEFTOVER]);
});

test.each<{ name: string; owners: Partial<LinkOwners> }>([
  { name: "an iface has", owners: { ifaces: [IFACE] } },
  {
    name: "an iface has that moves there",
    owners: {
      ifaces: [{ ...ELSEWHERE, swap: { podInterfaceName: POD_NIC, links: NO_LINKS } }],
    },
  },
  {
    name: "an iface has that was there",
    owners: { ifaces: [{ ...ELSEWHERE, leftovers: [POD_NIC] }] },
  },
  {
    name: "an iface has whose tap came from there",
    owners: { ifaces: [{ ...ELSEWHERE, links: { ...NO_LINKS, tapName: TAP.name } }] },
  },
  {
    name: "an attachment has, also of an iface that has another too",
    owners: { attachments: [{ name: "one", podInterfaceName: POD_NIC, state: "Requested" }] },
  },
  {
    name: "a NIC of the domain has, whoever put it there",
    owners: { nics: [{ tapName: TAP.name }] },
  },
])("what $name is not left", ({ owners }) => {
  expect(findOrphanedWirings([BRIDGE, TAP], { ...NO_USER, ...owners })).toEqual([]);
});

test("treats an open tap and its bridge as in use", () => {
  expect(findOrphanedWirings([BRIDGE, { ...TAP, carrier: true }], NO_USER)).toEqual([]);
});

test("a bridge whose carrier is up is left all the same", () => {
  expect(findOrphanedWirings([{ ...BRIDGE, carrier: true }], NO_USER)).toEqual([LEFTOVER]);
});

test.each([
  { name: "of another name", link: { ...BRIDGE, name: "br0" } },
  { name: "of a name that is longer", link: { ...BRIDGE, name: `${BRIDGE.name}f` } },
  { name: "of another kind", link: { ...TAP, kind: "veth" } },
  { name: "tap0, as anybody's may be called", link: { ...TAP, name: "tap0" } },
])("a link $name is not ours", ({ link }) => {
  expect(findOrphanedWirings([link], NO_USER)).toEqual([]);
});

test("around the default NIC it is left where its bridge is", () => {
  const links = [
    { ...TAP, name: "tap0" },
    { ...BRIDGE, name: "k6t-eth0" },
  ];
  const names = { podInterfaceName: "eth0", bridgeName: "k6t-eth0", tapName: "tap0" };
  expect(findOrphanedWirings(links, NO_USER)).toEqual([{ kind: "bridge", ...names }]);
});

test("several are in the order of their names", () => {
  const other = { ...BRIDGE, name: "k6t-00000000000" };
  const found = findOrphanedWirings([BRIDGE, other], NO_USER);
  expect(found.map(({ podInterfaceName }) => podInterfaceName)).toEqual([
    "pod00000000000",
    POD_NIC,
  ]);
});
