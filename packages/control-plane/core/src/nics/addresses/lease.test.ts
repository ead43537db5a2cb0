// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import {
  buildMasqueradeLease,
  buildRecordedLease,
  listAnsweredNeighbors,
  listServerAddresses,
  type RememberedAddresses,
} from "./lease.ts";

const NIC: RememberedAddresses = {
  podInterfaceName: "pod1",
  index: 3,
  addresses: ["10.9.0.5/24", "fd09::5/64"],
  routes: [
    { destination: "0.0.0.0/0", gateway: "10.9.0.1" },
    { destination: "10.50.0.0/16", gateway: "10.9.0.254" },
    { destination: "::/0", gateway: "fd09::1" },
  ],
  gatewayMac: "02:00:00:00:00:09",
};

describe("the guest's lease for the pod NIC's addresses", () => {
  test.each([undefined, { ...NIC, addresses: [] }])("is undefined without addresses", (input) => {
    expect(buildRecordedLease(input)).toBeUndefined();
  });

  test("has both families, with the IPv4 default route last", () => {
    expect(buildRecordedLease(NIC)).toEqual({
      ipv4: {
        address: "10.9.0.5/24",
        server: "169.254.75.10/32",
        routes: [
          { destination: "10.50.0.0/16", gateway: "10.9.0.254" },
          { destination: "0.0.0.0/0", gateway: "10.9.0.1" },
        ],
      },
      ipv6: {
        addresses: [{ address: "fd09::5/64", server: "fd09::/64", isOnLink: true }],
        isRouter: true,
      },
    });
  });

  test.each([
    { name: "a small subnet", address: "fd09::5/120", server: "fd09::/120", isOnLink: true },
    { name: "the smallest subnet", address: "fd09::5/126", server: "fd09::4/126", isOnLink: true },
    {
      name: "a point-to-point subnet",
      address: "fd09::5/127",
      server: "fd09::/64",
      isOnLink: false,
    },
    {
      name: "a large subnet",
      address: "fd48:1:2:3::5/48",
      server: "fd48:1:2:3::/64",
      isOnLink: false,
    },
    { name: "a subnet", address: "fd09::5/64", server: "fd09::/64", isOnLink: true },
    { name: "a single address", address: "fd09::5/128", server: "fd09::/64", isOnLink: false },
  ])(
    "has a server address outside the hosts' addresses for $name",
    ({ address, server, isOnLink }) => {
      const lease = buildRecordedLease({ ...NIC, addresses: [address] });
      expect(lease?.ipv4).toBeUndefined();
      expect(lease?.ipv6?.addresses).toEqual([{ address, server, isOnLink }]);
    },
  );

  test("has no IPv6 router if the gateway did not reply", () => {
    const { podInterfaceName, index, addresses, routes } = NIC;
    const silent = { podInterfaceName, index, addresses, routes };
    expect(buildRecordedLease(silent)?.ipv6?.isRouter).toBe(false);
  });
});

describe("a gateway outside the subnet", () => {
  const GATEWAY = { destination: "0.0.0.0/0", gateway: "169.254.1.1" };
  const ON_LINK = { destination: "169.254.1.1/32" };

  test.each([
    { name: "gets an on-link route", routes: [GATEWAY], want: [ON_LINK, GATEWAY] },
    { name: "retains its own", routes: [ON_LINK, GATEWAY], want: [ON_LINK, GATEWAY] },
    {
      name: "uses an on-link route to its subnet",
      routes: [{ destination: "169.254.0.0/16" }, GATEWAY],
      want: [{ destination: "169.254.0.0/16" }, GATEWAY],
    },
  ])("$name", ({ routes, want }) => {
    const nic = { ...NIC, addresses: ["10.9.0.5/32"], routes };
    expect(buildRecordedLease(nic)?.ipv4?.routes).toEqual(want);
  });

  test("is a neighbor for which the pod answers, with the destinations behind it", () => {
    const [neighbor, own] = ["169.254.1.1", "10.9.0.5"].map((address) => ({
      address,
      mac: "02:00:00:00:00:0a",
    }));
    const neighbors = [neighbor, own].flatMap((each) => each ?? []);
    const nic = { ...NIC, routes: [ON_LINK, GATEWAY], neighbors };
    expect(listAnsweredNeighbors(nic, 4)).toEqual([
      { ...neighbor, destinations: ["169.254.1.1/32", "0.0.0.0/0"] },
    ]);
    expect(listAnsweredNeighbors(NIC, 4)).toEqual([]);
    const router = { address: "fe80::1", mac: "02:00:00:00:00:0b" };
    const routes = [GATEWAY, { destination: "::/0", gateway: "fe80::1" }];
    const dual = { ...NIC, routes, neighbors: [...neighbors, router] };
    expect(listAnsweredNeighbors(dual, 6)).toEqual([
      { ...router, destinations: ["fe80::1/128", "::/0"] },
    ]);
    expect(listAnsweredNeighbors(dual, 4)).toHaveLength(1);
  });
});

test("a guest behind its pod has the bridge as gateway", () => {
  const ipv4 = { gateway: "10.0.2.1/24", guest: "10.0.2.2" };
  const ipv6 = { gateway: "fd10:0:2::1/120", guest: "fd10:0:2::2" };
  expect(buildMasqueradeLease({})).toEqual({});
  expect(buildMasqueradeLease({ ipv4, ipv6 })).toEqual({
    ipv4: {
      address: "10.0.2.2/24",
      server: "10.0.2.1/24",
      routes: [{ destination: "0.0.0.0/0", gateway: "10.0.2.1" }],
    },
    ipv6: {
      addresses: [{ address: "fd10:0:2::2/120", server: "fd10:0:2::1/120", isOnLink: true }],
      isRouter: true,
    },
  });
});

test("the bridge has each server address once", () => {
  const lease = buildRecordedLease({
    ...NIC,
    addresses: ["10.9.0.5/24", "fd09::5/64", "fd09::6/64"],
  });
  expect(listServerAddresses(lease ?? {})).toEqual(["169.254.75.10/32", "fd09::/64"]);
});
