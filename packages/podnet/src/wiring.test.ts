// SPDX-License-Identifier: Apache-2.0
import type { Link, TapWiring } from "@patchbay/ports";
import { describe, expect, test } from "vitest";
import { bridgeMacOf, canCarryVm, planForwarding, planUnwiring, planWiring } from "./wiring.ts";

const MAC = "02:00:00:00:00:0A";
const WIRING: TapWiring = {
  podInterfaceName: "pod1",
  bridgeName: "k6t-1",
  tapName: "tap1",
  mac: MAC,
  mtu: 1450,
  owner: 107,
  queues: 1,
};
const NIC: Link = { name: "pod1", index: 2, kind: "veth", mac: MAC, mtu: 1450, up: true };
const BRIDGE: Link = { ...NIC, name: "k6t-1", index: 3, kind: "bridge", mac: "5e:00:00:00:00:0a" };
const TAP: Link = { ...NIC, name: "tap1", index: 4, kind: "tun", master: "k6t-1" };
const ENSLAVED: Link = { ...NIC, master: "k6t-1" };

function index(...links: readonly Link[]): ReadonlyMap<string, Link> {
  return new Map(links.map((link) => [link.name, link]));
}

describe("the plan to wire", () => {
  test("makes bridge, tap and port, in this order, from nothing", () => {
    expect(planWiring(NIC, index(NIC), WIRING)).toEqual([
      "link add k6t-1 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
      "link set k6t-1 address 5e:00:00:00:00:0a addrgenmode none arp off",
      "link set k6t-1 up",
      "tuntap add dev tap1 mode tap user 107 group 107",
      "link set tap1 addrgenmode none mtu 1450",
      "link set tap1 master k6t-1",
      "link set tap1 up",
      "link set pod1 addrgenmode none",
      "addr flush dev pod1",
      "link set pod1 master k6t-1",
      "link set pod1 type bridge_slave learning off",
      "link set pod1 up",
    ]);
  });

  test("is empty when all is there", () => {
    expect(planWiring(ENSLAVED, index(ENSLAVED, BRIDGE, TAP), WIRING)).toEqual([]);
  });

  test("gives the NIC the guest's MAC when it has another", () => {
    const nic = { ...NIC, mac: "0a:00:00:00:00:01" };
    expect(planWiring(nic, index(nic), WIRING)).toContain(`link set pod1 address ${MAC}`);
  });

  test.each([
    { name: "after the bridge", links: index(NIC, BRIDGE), first: "tuntap add dev tap1" },
    { name: "after the tap", links: index(NIC, BRIDGE, TAP), first: "link set pod1 addrgenmode" },
    {
      name: "between the tap and its bridge",
      links: index(NIC, BRIDGE, { ...NIC, name: "tap1", kind: "tun", up: false }),
      first: "link set tap1 addrgenmode",
    },
  ])("goes on where it was cut short $name", ({ links, first }) => {
    expect(planWiring(NIC, links, WIRING)[0]).toContain(first);
  });
});

describe("the plan to forward", () => {
  const mac = MAC.toLowerCase();
  const wanted = { mac, device: "tap1", state: "static" };

  test("moves the guest's MAC from the NIC to the tap when the NIC was just enslaved", () => {
    expect(planForwarding(WIRING, undefined)).toEqual([
      `fdb del ${mac} dev pod1 master`,
      `fdb replace ${mac} dev tap1 master static`,
    ]);
  });

  test("is empty when the MAC is behind the tap", () => {
    expect(planForwarding(WIRING, [wanted])).toEqual([]);
  });

  test.each([
    {
      name: "the entry of the NIC is left",
      present: [wanted, { mac, device: "pod1", state: "permanent" }],
      want: [`fdb del ${mac} dev pod1 master`],
    },
    {
      name: "the MAC was only learned",
      present: [{ mac, device: "tap1", state: "" }],
      want: [`fdb replace ${mac} dev tap1 master static`],
    },
  ])("repairs what is missing when $name", ({ present, want }) => {
    expect(planForwarding(WIRING, present)).toEqual(want);
  });
});

test("the plan to unwire removes the tap before its bridge, and only what is there", () => {
  expect(planUnwiring(index(ENSLAVED, BRIDGE, TAP), WIRING)).toEqual([
    "link del tap1",
    "link del k6t-1",
  ]);
  expect(planUnwiring(index(NIC), WIRING)).toEqual([]);
});

test.each(["ipvlan", "ipvtap"])("a NIC of kind %s cannot carry a VM", (kind) => {
  expect(canCarryVm({ ...NIC, kind })).toBe(false);
});

test("the bridge's MAC is local and never the guest's", () => {
  expect(bridgeMacOf("5e:00:00:00:00:01")).toBe("5a:00:00:00:00:01");
  expect(bridgeMacOf("02:AA:00:00:00:01")).toBe("5e:aa:00:00:00:01");
});
