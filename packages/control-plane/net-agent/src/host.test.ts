// SPDX-License-Identifier: Apache-2.0
import type { Link } from "@patchbay/core/interfaces";
import { expect, test } from "vitest";
import { findOwnBridges, toNodeSubnets } from "./host.ts";

function port(kind: string, master?: string): Link {
  return {
    name: "x",
    index: 1,
    kind,
    mac: "",
    mtu: 1500,
    up: true,
    carrier: true,
    addresses: [],
    ...(master === undefined ? {} : { master }),
  };
}

test.each([
  { name: "no bridges", links: [port("")], want: [] },
  {
    name: "not a bridge with only pods and guests",
    links: [port("veth", "br1"), port("tun", "br1")],
    want: [],
  },
  {
    name: "a bridge with a physical NIC",
    links: [port("veth", "br0"), port("", "br0")],
    want: ["br0"],
  },
  {
    name: "a bridge with a VLAN and a bridge with a bond",
    links: [port("vlan", "a"), port("bond", "b")],
    want: ["a", "b"],
  },
])("finds the node's own bridges: $name", ({ links, want }) => {
  expect([...findOwnBridges(links)]).toEqual(want);
});

test("finds the subnets of links that plugins created", () => {
  const subnets = [
    { prefix: "10.0.0.1/24", link: "blue", index: 7, kind: "bridge" },
    { prefix: "10.0.1.1/24", link: "blue", index: 8, kind: "bridge" },
    { prefix: "10.0.2.5/32", link: "veth1", index: 9, kind: "veth" },
    { prefix: "10.0.3.0/24", link: "veth1", index: 9, kind: "veth" },
    { prefix: "fd00::5/128", link: "veth1", index: 9, kind: "veth" },
    { prefix: "10.0.4.5/32", link: "eth0", index: 2, kind: "" },
  ];
  const found = toNodeSubnets(subnets, [{ name: "blue", index: 7 }]);
  expect(found.map(({ isOfPlugin }) => isOfPlugin)).toEqual([
    true,
    false,
    true,
    false,
    true,
    false,
  ]);
});
