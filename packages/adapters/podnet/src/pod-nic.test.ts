// SPDX-License-Identifier: Apache-2.0
import type { Link } from "@patchbay/core/interfaces";
import { expect, test } from "vitest";
import { planNicRestore } from "./pod-nic.ts";

const MAC = "02:00:00:00:00:0a";
const LINK: Link = {
  name: "net1",
  index: 2,
  kind: "veth",
  mac: MAC,
  mtu: 1500,
  up: true,
  carrier: true,
  addresses: ["10.0.0.2/24", "fd00:0:0:0:0:0:0:2/64"],
};

test.each([
  {
    name: "has all its settings",
    mac: MAC.toUpperCase(),
    addresses: ["10.0.0.2/24", "fd00::2/64"],
    want: [],
  },
  { name: "had no known MAC", addresses: [], want: [] },
  {
    name: "has another MAC",
    mac: "02:00:00:00:00:0b",
    addresses: [],
    want: [{ op: "setLink", link: "net1", settings: { up: false, mac: "02:00:00:00:00:0b" } }],
  },
  {
    name: "lacks an address",
    addresses: ["10.0.0.3/24", "10.0.0.2/24"],
    want: [{ op: "addAddress", link: "net1", address: "10.0.0.3/24", flags: [] }],
  },
  {
    name: "has an address with a different prefix length",
    addresses: ["10.0.0.2/16"],
    want: [{ op: "addAddress", link: "net1", address: "10.0.0.2/16", flags: [] }],
  },
  { name: "had an invalid address", addresses: ["10.0.0.2/24 dev eth0", ""], want: [] },
])("plans the restore of a NIC that $name", ({ want, mac, addresses }) => {
  const borrowed = { name: "net1", ...(mac !== undefined && { mac }), addresses };
  expect(planNicRestore(LINK, borrowed)).toEqual(want);
});
