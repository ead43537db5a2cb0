// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { NO_LINKS, type IfaceFacts } from "../facts.ts";
import { orphanedWirings, type LinkOwners } from "./orphaned-wirings.ts";

const HASH = "0123456789a";
const POD_NIC = `pod${HASH}`;
const BRIDGE = { name: `k6t-${HASH}`, kind: "bridge", carrier: false };
const TAP = { name: `tap${HASH}`, kind: "tun", carrier: false };
const NOBODY: LinkOwners = { ifaces: [], attachments: [], nics: [] };
const LEFT = {
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
  expect(orphanedWirings(links, NOBODY)).toEqual([LEFT]);
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
    owners: { ifaces: [{ ...ELSEWHERE, left: [POD_NIC] }] },
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
  expect(orphanedWirings([BRIDGE, TAP], { ...NOBODY, ...owners })).toEqual([]);
});

test("a tap that somebody has open is in use, and so is its bridge", () => {
  expect(orphanedWirings([BRIDGE, { ...TAP, carrier: true }], NOBODY)).toEqual([]);
});

test("a bridge whose carrier is up is left all the same", () => {
  expect(orphanedWirings([{ ...BRIDGE, carrier: true }], NOBODY)).toEqual([LEFT]);
});

test.each([
  { name: "of another name", link: { ...BRIDGE, name: "br0" } },
  { name: "of a name that is longer", link: { ...BRIDGE, name: `${BRIDGE.name}f` } },
  { name: "of another kind", link: { ...TAP, kind: "veth" } },
  { name: "tap0, as anybody's may be called", link: { ...TAP, name: "tap0" } },
])("a link $name is not ours", ({ link }) => {
  expect(orphanedWirings([link], NOBODY)).toEqual([]);
});

test("around the default NIC it is left where its bridge is", () => {
  const links = [
    { ...TAP, name: "tap0" },
    { ...BRIDGE, name: "k6t-eth0" },
  ];
  const names = { podInterfaceName: "eth0", bridgeName: "k6t-eth0", tapName: "tap0" };
  expect(orphanedWirings(links, NOBODY)).toEqual([{ kind: "bridge", ...names }]);
});

test("several are in the order of their names", () => {
  const other = { ...BRIDGE, name: "k6t-00000000000" };
  const found = orphanedWirings([BRIDGE, other], NOBODY);
  expect(found.map(({ podInterfaceName }) => podInterfaceName)).toEqual([
    "pod00000000000",
    POD_NIC,
  ]);
});
