// SPDX-License-Identifier: Apache-2.0
import type { Network } from "@patchbay/api";
import { expect, test } from "vitest";
import { planNatSubnets, BINDINGS, type BindingKind } from "./binding.ts";
import { toRemovableWiring } from "./pod-wiring.ts";

const IPV4 = { gateway: "10.0.2.1/24", guest: "10.0.2.2" };
const IPV6 = { gateway: "fd10:0:2::1/120", guest: "fd10:0:2::2" };

test.each<{
  name: string;
  pod?: Network["pod"];
  addresses: readonly string[];
  want: ReturnType<typeof planNatSubnets>;
}>([
  {
    name: "both families",
    addresses: ["10.88.0.5/24", "fd88::5/64"],
    want: { ipv4: IPV4, ipv6: IPV6 },
  },
  { name: "only IPv4", addresses: ["10.88.0.5/24", "fe80::1/64"], want: { ipv4: IPV4 } },
  { name: "only IPv6", addresses: ["169.254.1.1/16", "fd88::5/64"], want: { ipv6: IPV6 } },
  { name: "no subnets without an address", addresses: [], want: {} },
  {
    name: "subnets from the network's specification",
    pod: { vmNetworkCIDR: "192.168.7.9/30", vmIPv6NetworkCIDR: "fd00:7::/64" },
    addresses: ["10.88.0.5/24", "fd88::5/64"],
    want: {
      ipv4: { gateway: "192.168.7.9/30", guest: "192.168.7.10" },
      ipv6: { gateway: "fd00:7::1/64", guest: "fd00:7::2" },
    },
  },
  {
    name: "leading zeros, which are read as decimal",
    pod: { vmNetworkCIDR: "10.10.010.0/24" },
    addresses: ["10.88.0.5/24"],
    want: { ipv4: { gateway: "10.10.10.1/24", guest: "10.10.10.2" } },
  },
  {
    name: "the default for an empty value",
    pod: { vmNetworkCIDR: "" },
    addresses: ["10.88.0.5/24"],
    want: { ipv4: IPV4 },
  },
  {
    name: "no subnet that is too small",
    pod: { vmNetworkCIDR: "10.0.2.0/31" },
    addresses: ["10.88.0.5/24"],
    want: {},
  },
  {
    name: "no subnet of the wrong family",
    pod: { vmNetworkCIDR: "fd00::/64" },
    addresses: ["10.88.0.5/24"],
    want: {},
  },
])("plans a guest's subnets behind a pod: $name", ({ pod = {}, addresses, want }) => {
  expect(planNatSubnets({ name: "default", pod }, addresses)).toEqual(want);
});

const NAMES = { podInterfaceName: "pod1", bridgeName: "k6t-1", tapName: "tap1" };
const FACTS = { ...NAMES, mac: "02:00:00:00:00:01", mtu: 1450, podAddresses: [] };

interface Row {
  readonly kind: BindingKind;
  /** What stands in the pod. */
  readonly wiring: string;
  /** What the device opens where both a tap and the pod's NIC are there, and where only the NIC is. */
  readonly opens: readonly [string, string];
  /** What can be changed while the guest runs. */
  readonly live: readonly string[];
  readonly addresses: "guest" | "pod";
  /** Whether the NIC's addresses are written down, since wiring takes them. */
  readonly taken: boolean;
}

test("vhostuser needs no kernel links", () => {
  const module = BINDINGS.vhostuser;
  expect(module.kind).toBe("vhostuser");
  expect(module.buildWiring(FACTS)).toBeUndefined();
  expect(module.findTap(NAMES, new Set(["tap1"]))).toBe("");
  expect(module.buildLease(FACTS)).toBeUndefined();
  expect(module.live).toEqual({ canPlug: true, canSetLink: false, canSwapNetwork: false });
});

test.each<Row>([
  {
    kind: "bridge",
    wiring: "bridge",
    opens: ["tap1", "tap1"],
    live: ["canPlug", "canSetLink", "canSwapNetwork"],
    addresses: "guest",
    taken: true,
  },
  {
    kind: "masquerade",
    wiring: "masquerade",
    opens: ["tap1", "tap1"],
    live: ["canSetLink"],
    addresses: "pod",
    taken: false,
  },
  {
    kind: "managedTap",
    wiring: "bridge",
    opens: ["tap1", "tap1"],
    live: ["canPlug", "canSetLink"],
    addresses: "guest",
    taken: true,
  },
  {
    kind: "tap",
    wiring: "tap",
    opens: ["tap1", "pod1"],
    live: ["canPlug", "canSetLink"],
    addresses: "guest",
    taken: false,
  },
  {
    kind: "hook",
    // Nobody asks for it: nothing is made.
    wiring: "tap",
    opens: ["tap1", "pod1"],
    live: [],
    addresses: "guest",
    taken: false,
  },
])("$kind", ({ kind, wiring, opens, live, addresses, taken: inUse }) => {
  const module = BINDINGS[kind];
  expect(module.kind).toBe(kind);
  const created = module.buildWiring(FACTS);
  expect(created).toMatchObject({
    kind: wiring,
    podInterfaceName: "pod1",
    mac: FACTS.mac,
    mtu: 1450,
  });
  const left = created === undefined ? undefined : toRemovableWiring(created);
  expect(left?.kind).toBe(wiring);
  expect(left !== undefined && "bridgeName" in left).toBe(wiring !== "tap");
  const links = [["tap1", "pod1"], ["pod1"]].map((names) => new Set(names));
  expect(links.map((there) => module.findTap(NAMES, there))).toEqual(opens);
  const changes = (["canPlug", "canSetLink", "canSwapNetwork"] as const).filter(
    (what) => module.live[what],
  );
  expect(changes).toEqual(live);
  expect([module.addressSource, module.removesPodAddresses]).toEqual([addresses, inUse]);
});

test.each([
  { isMeshed: {}, podAddresses: ["10.88.0.5/24"], want: undefined },
  { isMeshed: { isMeshed: true }, podAddresses: ["fd88::5/64"], want: {} },
  {
    isMeshed: { isMeshed: true },
    podAddresses: ["fd88::5/64", "10.88.0.5/24"],
    want: { podIpv4: "10.88.0.5" },
  },
] as const)("a service mesh's proxy connects to $want", ({ isMeshed, podAddresses, want }) => {
  const wiring = BINDINGS.masquerade.buildWiring({ ...FACTS, podAddresses, ...isMeshed });
  expect((wiring as { mesh?: object }).mesh).toEqual(want);
});
