// SPDX-License-Identifier: Apache-2.0
import type { BandwidthLimit, ClusterSecurity, Iface, Network } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import {
  buildNicDefinition,
  buildWiring,
  type WiredIface,
  findOrphanedWirings,
  type LinkOwners,
} from "../node-plan.ts";
import { buildIfaceNames } from "../names.ts";
import { buildServedNics } from "../addresses/served-nic.ts";
import { NO_LINKS, type IfaceFacts } from "../facts.ts";
import { anIface } from "../../testing/node-scene.ts";

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

describe("the wiring of an iface", () => {
  test("with masquerade assigns the guest's addresses, and restricts the guest to them", () => {
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

  test("on the pod network restricts the guest to the pod's former addresses", () => {
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

  test("filters by the cluster's policy and the addresses that the plugin left on the NIC", () => {
    const security: ClusterSecurity = { mode: "Addresses", enforced: false };
    const links = { mac: MAC, mtu: 1400, addresses: ["10.9.0.1/24"] };
    const more: Partial<WiredIface> = { binding: { kind: "tap" }, links };
    expect(ifaceOn(BLUE, { bridge: {} }, more)?.guard).toBeUndefined();
    expect(ifaceOn(BLUE, { bridge: {} }, { ...more, security })?.guard?.addresses).toEqual([
      "10.9.0.1",
      "fe80::ff:fe00:5e01",
    ]);
  });

  test("does not depend on the pod's annotations", () => {
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

  test("of an existing device restricts the guest to the device's MAC", () => {
    const mac = "02:00:00:00:5e:09";
    const device = { alias: "ua-one", mac, linkUp: true, queues: 1 };
    expect(ifaceOn(POD, { bridge: {} }, { device })?.guard?.macs).toEqual([mac]);
  });
});

const HASH = "0123456789a";
const POD_NIC = `pod${HASH}`;
const BRIDGE = { name: `k6t-${HASH}`, kind: "bridge", carrier: false };
const TAP = { name: `tap${HASH}`, kind: "tun", carrier: false };
const LIMITER = { name: `lim${HASH}`, kind: "ifb", carrier: true };
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
  { name: "a limiter", links: [LIMITER] },
])("$name without an owner belongs to an orphaned wiring", ({ links }) => {
  expect(findOrphanedWirings(links, NO_USER)).toEqual([LEFTOVER]);
});

test.each<{ name: string; owners: Partial<LinkOwners> }>([
  { name: "belong to an iface", owners: { ifaces: [IFACE] } },
  {
    name: "belong to an iface that is being swapped to them",
    owners: {
      ifaces: [{ ...ELSEWHERE, swap: { podInterfaceName: POD_NIC, links: NO_LINKS } }],
    },
  },
  {
    name: "belong to an iface that was swapped away from them",
    owners: { ifaces: [{ ...ELSEWHERE, leftovers: [POD_NIC] }] },
  },
  {
    name: "belong to an iface whose tap was moved",
    owners: { ifaces: [{ ...ELSEWHERE, links: { ...NO_LINKS, tapName: TAP.name } }] },
  },
  {
    name: "belong to an attachment",
    owners: { attachments: [{ name: "one", podInterfaceName: POD_NIC, state: "Requested" }] },
  },
  {
    name: "belong to a NIC of the domain",
    owners: { nics: [{ tapName: TAP.name }] },
  },
])("links that $name are not orphaned", ({ owners }) => {
  expect(findOrphanedWirings([BRIDGE, TAP], { ...NO_USER, ...owners })).toEqual([]);
});

test("links of a NIC that a driver named belong to its attachment", () => {
  const podInterfaceName = "dra-node1-0";
  const { bridgeName, tapName } = buildIfaceNames("one", podInterfaceName);
  const links = [
    { ...BRIDGE, name: bridgeName },
    { ...TAP, name: tapName },
  ];
  const attachments = [{ name: "one", podInterfaceName, state: "Attached" as const }];
  expect(findOrphanedWirings(links, { ...NO_USER, attachments })).toEqual([]);
  expect(findOrphanedWirings(links, NO_USER)).toMatchObject([{ bridgeName, tapName }]);
});

test("treats an open tap and its bridge as in use", () => {
  expect(findOrphanedWirings([BRIDGE, { ...TAP, carrier: true }], NO_USER)).toEqual([]);
});

test("a bridge with a carrier is orphaned nevertheless", () => {
  expect(findOrphanedWirings([{ ...BRIDGE, carrier: true }], NO_USER)).toEqual([LEFTOVER]);
});

test.each([
  { name: "with a different name", link: { ...BRIDGE, name: "br0" } },
  { name: "with a longer name", link: { ...BRIDGE, name: `${BRIDGE.name}f` } },
  { name: "of another kind", link: { ...TAP, kind: "veth" } },
  { name: "named tap0, a common name,", link: { ...TAP, name: "tap0" } },
])("a link $name is not Patchbay's", ({ link }) => {
  expect(findOrphanedWirings([link], NO_USER)).toEqual([]);
});

test("a wiring around the default NIC is orphaned only together with its bridge", () => {
  const links = [
    { ...TAP, name: "tap0" },
    { ...BRIDGE, name: "k6t-eth0" },
  ];
  const names = { podInterfaceName: "eth0", bridgeName: "k6t-eth0", tapName: "tap0" };
  expect(findOrphanedWirings(links, NO_USER)).toEqual([{ kind: "bridge", ...names }]);
});

test("lists orphaned wirings by name", () => {
  const other = { ...BRIDGE, name: "k6t-00000000000" };
  const found = findOrphanedWirings([BRIDGE, other], NO_USER);
  expect(found.map(({ podInterfaceName }) => podInterfaceName)).toEqual([
    "pod00000000000",
    POD_NIC,
  ]);
});

test.each([
  { mtu: 1300, nic: 1400, want: 1300 },
  { mtu: 9000, nic: 1400, want: 1400 },
  { mtu: undefined, nic: 1400, want: 1400 },
  { mtu: 1300, nic: 0, want: 1300 },
  { mtu: undefined, nic: 0, want: 0 },
])("an MTU of $mtu on a pod NIC of $nic becomes $want everywhere", ({ mtu, nic, want }) => {
  const requested = mtu === undefined ? {} : { mtu };
  const links = { hasPodInterface: true, isWired: true, mtu: nic };
  const iface = anIface({ name: "one", iface: requested, links, attachment: "Attached" });
  expect(buildWiring(iface)).toMatchObject({ mtu: want });
  const pciAddress = { domain: 0, bus: 1, slot: 0, function: 0 };
  expect(buildNicDefinition(iface, { pciAddress, queues: 1 })).toMatchObject({ mtu: want });
  const remembered = {
    podInterfaceName: "pod0one",
    index: 3,
    addresses: ["10.9.0.5/24"],
    routes: [],
  };
  const served = buildServedNics({ vmi: aVmi({}), ifaces: [{ ...iface, remembered }] });
  expect(served).toMatchObject([{ mtu: want }]);
});

test.each([
  { mtu: 1000, addresses: ["10.9.0.5/24"], want: 1000 },
  { mtu: 1000, addresses: ["10.9.0.5/24", "fd09::5/64"], want: 1280 },
  { mtu: 1300, addresses: ["fd09::5/64"], want: 1300 },
])("an MTU of $mtu with $addresses becomes $want", ({ mtu, addresses, want }) => {
  const links = { hasPodInterface: true, mtu: 1400, addresses };
  expect(buildWiring(anIface({ iface: { mtu }, links }))).toMatchObject({ mtu: want });
  const remembered = { podInterfaceName: "pod0a", index: 3, addresses, routes: [] };
  const recorded = { ...anIface({ iface: { mtu }, links: { mtu: 1400 } }), remembered };
  expect(buildWiring(recorded)).toMatchObject({ mtu: want });
});

test("a limiter of the default network is orphaned, and so is its tap", () => {
  const links = [
    { name: "tap0", kind: "tun", carrier: false },
    { name: "lim0", kind: "ifb", carrier: true },
  ];
  expect(findOrphanedWirings(links, NO_USER)).toMatchObject([{ tapName: "tap0" }]);
  expect(findOrphanedWirings(links.slice(0, 1), NO_USER)).toEqual([]);
});

test.each<{ name: string; limit: BandwidthLimit; mtu: number; want: unknown }>([
  {
    name: "all fields",
    limit: { average: "10M", peak: "20M", burst: "1M" },
    mtu: 1500,
    want: {
      average: { bytesPerSecond: 10_000_000, burstBytes: 1_000_000 },
      peak: { bytesPerSecond: 20_000_000, burstBytes: 20_000 },
      queueBytes: 2_000_000,
    },
  },
  {
    name: "only an average",
    limit: { average: "1M" },
    mtu: 1500,
    want: { average: { bytesPerSecond: 1_000_000, burstBytes: 50_000 }, queueBytes: 150_000 },
  },
  {
    name: "a bucket smaller than a frame",
    limit: { average: 10_000, peak: 20_000, burst: 1522 },
    mtu: 9000,
    want: {
      average: { bytesPerSecond: 10_000, burstBytes: 9022 },
      peak: { bytesPerSecond: 20_000, burstBytes: 9022 },
      queueBytes: 90_220,
    },
  },
  {
    name: "a large average",
    limit: { average: "125G" },
    mtu: 1500,
    want: {
      average: { bytesPerSecond: 125_000_000_000, burstBytes: 4_294_967_295 },
      queueBytes: 4_294_967_295,
    },
  },
])("the limit of an iface with $name", ({ limit, mtu, want }) => {
  const links = { hasPodInterface: true, mtu };
  const limits = (bandwidth: NonNullable<Iface["bandwidth"]>) =>
    buildWiring(anIface({ iface: { bandwidth }, links }))?.limits;
  expect(limits({ inbound: limit })).toEqual({ inbound: want });
  expect(limits({ outbound: limit })).toEqual({ outbound: want });
  expect(limits({})).toBeUndefined();
});

test("a tap of a plugin has no limits", () => {
  const bandwidth = { inbound: { average: "1M" } };
  const binding = { kind: "refused", field: "bandwidth", leftover: "tap" } as const;
  const refusal = { ...binding, reason: "BindingNotSupported", message: "no" } as const;
  const iface = anIface({ iface: { bandwidth }, links: { hasPodInterface: true, mtu: 1500 } });
  expect(buildWiring({ ...iface, binding: refusal })).not.toHaveProperty("limits");
});
