// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { printAddress } from "@patchbay/api/values";
import { aBlueDefinition } from "../testing/network-services.ts";
import { listPrefixes } from "./allowed-addresses.ts";

function printed(config: object): readonly string[] {
  return listPrefixes(aBlueDefinition(config)).map(
    (prefix) => `${printAddress(prefix)}/${String(prefix.length)}`,
  );
}

test.each([
  {
    name: "host-local's single subnet",
    config: { ipam: { type: "host-local", subnet: "10.1.0.0/16", gateway: "192.0.2.1" } },
    want: ["10.1.0.0/16"],
  },
  {
    name: "host-local's ranges, but not its routes",
    config: {
      ipam: {
        ranges: [[{ subnet: "10.1.0.0/16" }], [{ subnet: "fd77::/64" }]],
        routes: [{ dst: "0.0.0.0/0", gw: "10.1.0.1" }],
      },
    },
    want: ["10.1.0.0/16", "fd77::/64"],
  },
  {
    name: "static's addresses",
    config: { ipam: { type: "static", addresses: [{ address: "10.2.0.4/24" }] } },
    want: ["10.2.0.4/24"],
  },
  {
    name: "a whereabouts range with both ends",
    config: { ipam: { type: "whereabouts", range: "10.3.0.1-10.3.0.9/24" } },
    want: ["10.3.0.9/24"],
  },
  {
    name: "whereabouts' list of ranges",
    config: { ipam: { ipRanges: [{ range: "10.3.0.0/24" }, { range: "fd78::/64" }] } },
    want: ["10.3.0.0/24", "fd78::/64"],
  },
  {
    name: "ovn-kubernetes' subnets",
    config: { type: "ovn-k8s-cni-overlay", subnets: "10.4.0.0/16, fd79::/64" },
    want: ["10.4.0.0/16", "fd79::/64"],
  },
  {
    name: "the addresses of a plugin in a list",
    config: { plugins: [{ type: "bridge", ipam: { subnet: "10.5.0.0/16" } }, { type: "tuning" }] },
    want: ["10.5.0.0/16"],
  },
  { name: "no addresses that a server assigns", config: { ipam: { type: "dhcp" } }, want: [] },
  { name: "no invalid networks", config: { ipam: { subnet: "all of them" } }, want: [] },
  {
    name: "no addresses of the wrong type",
    config: { ipam: 7, plugins: [7], subnets: {} },
    want: [],
  },
])("a definition names $name", ({ config, want }) => {
  expect([...printed(config)].sort()).toEqual([...want].sort());
});

test("a definition without text names nothing", () => {
  expect(listPrefixes({ ...aBlueDefinition(), spec: {} })).toEqual([]);
  expect(listPrefixes({ ...aBlueDefinition(), spec: { config: "{" } })).toEqual([]);
});
