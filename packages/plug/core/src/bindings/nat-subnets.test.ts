// SPDX-License-Identifier: Apache-2.0
import type { Network } from "@patchbay/api";
import { expect, test } from "vitest";
import { natSubnetsOf } from "./nat-subnets.ts";

const IPV4 = { gateway: "10.0.2.1/24", guest: "10.0.2.2" };
const IPV6 = { gateway: "fd10:0:2::1/120", guest: "fd10:0:2::2" };

test.each<{
  name: string;
  pod?: Network["pod"];
  addresses: readonly string[];
  want: ReturnType<typeof natSubnetsOf>;
}>([
  {
    name: "of both families",
    addresses: ["10.88.0.5/24", "fd88::5/64"],
    want: { ipv4: IPV4, ipv6: IPV6 },
  },
  { name: "of IPv4 only", addresses: ["10.88.0.5/24", "fe80::1/64"], want: { ipv4: IPV4 } },
  { name: "of IPv6 only", addresses: ["169.254.1.1/16", "fd88::5/64"], want: { ipv6: IPV6 } },
  { name: "none without an address", addresses: [], want: {} },
  {
    name: "that the network says",
    pod: { vmNetworkCIDR: "192.168.7.9/30", vmIPv6NetworkCIDR: "fd00:7::/64" },
    addresses: ["10.88.0.5/24", "fd88::5/64"],
    want: {
      ipv4: { gateway: "192.168.7.9/30", guest: "192.168.7.10" },
      ipv6: { gateway: "fd00:7::1/64", guest: "fd00:7::2" },
    },
  },
  {
    name: "with leading zeros, which are decimal",
    pod: { vmNetworkCIDR: "10.10.010.0/24" },
    addresses: ["10.88.0.5/24"],
    want: { ipv4: { gateway: "10.10.10.1/24", guest: "10.10.10.2" } },
  },
  {
    name: "empty words as the default",
    pod: { vmNetworkCIDR: "" },
    addresses: ["10.88.0.5/24"],
    want: { ipv4: IPV4 },
  },
  {
    name: "none that is too small",
    pod: { vmNetworkCIDR: "10.0.2.0/31" },
    addresses: ["10.88.0.5/24"],
    want: {},
  },
  {
    name: "none of another family",
    pod: { vmNetworkCIDR: "fd00::/64" },
    addresses: ["10.88.0.5/24"],
    want: {},
  },
])("a guest behind a pod has subnets $name", ({ pod = {}, addresses, want }) => {
  expect(natSubnetsOf({ name: "default", pod }, addresses)).toEqual(want);
});
