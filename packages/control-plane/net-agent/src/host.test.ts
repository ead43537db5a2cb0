// SPDX-License-Identifier: Apache-2.0
import type { Link } from "@patchbay/core/interfaces";
import { expect, test } from "vitest";
import { findOwnBridges } from "./host.ts";

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
