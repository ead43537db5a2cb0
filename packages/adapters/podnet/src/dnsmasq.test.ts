// SPDX-License-Identifier: Apache-2.0
import type { ServedNic } from "@patchbay/core/nics";
import { SERVED_NIC } from "@patchbay/podnet/testing";
import { expect, test } from "vitest";
import { buildDnsmasqArguments } from "./dnsmasq.ts";

const IPV6 = {
  addresses: [
    { address: "fd09::5/64", server: "fd09::/64", isOnLink: true },
    { address: "fd0a::5/128", server: "fd0a::/64", isOnLink: false },
  ],
  isRouter: true,
};

/** The arguments for a NIC, without those of every server. */
function listOptions(nic: ServedNic): readonly string[] {
  const all = buildDnsmasqArguments(nic);
  return all.slice(all.indexOf("--dhcp-ignore=tag:!known") + 1);
}

test("a NIC with IPv4 has its own range, host and options", () => {
  expect(listOptions(SERVED_NIC)).toEqual([
    "--interface=k6t-c0ffee",
    "--dhcp-host=02:00:00:00:5e:01,10.9.0.5,infinite",
    "--shared-network=k6t-c0ffee,10.9.0.5",
    "--dhcp-range=10.9.0.5,static,255.255.255.0,infinite",
    "--dhcp-option=tag:k6t-c0ffee,12,guest1",
    "--dhcp-option=tag:k6t-c0ffee,option:mtu,1400",
    "--dhcp-option=tag:k6t-c0ffee,option:router",
  ]);
});

test("a NIC with IPv6 has a range for each subnet, and its router's lifetime", () => {
  const nic = { ...SERVED_NIC, lease: { ipv6: IPV6 } };
  expect(listOptions(nic)).toEqual([
    "--enable-ra",
    "--interface=k6t-c0ffee",
    "--dhcp-host=02:00:00:00:5e:01,[fd09::5],[fd0a::5],infinite",
    "--dhcp-range=fd09::,static,64,infinite",
    "--dhcp-range=fd0a::,static,off-link,64,infinite",
    "--ra-param=k6t-c0ffee,mtu:1400,0,9000",
  ]);
  const lease = { ipv6: { ...IPV6, isRouter: false } };
  expect(listOptions({ ...nic, mtu: 1279, lease })).toContain("--ra-param=k6t-c0ffee,mtu:off,0,0");
});

test("passes the value of a private option byte for byte", () => {
  const findValues = (value: string): string | undefined =>
    listOptions({ ...SERVED_NIC, options: { privateOptions: [{ option: 224, value }] } })
      .at(-1)
      ?.split(",")
      .slice(2)
      .join(",");
  expect(["a", "10.0.0.1", "a,b"].map(findValues)).toEqual([
    "97",
    "31:30:2e:30:2e:30:2e:31",
    "61:2c:62",
  ]);
});

test.each([
  { name: "a hostname with a comma", change: { hostname: "a,b" } },
  { name: "a MAC that is an option", change: { mac: "-x" } },
  {
    name: "an invalid address",
    change: { lease: { ipv4: { ...SERVED_NIC.lease.ipv4, address: "x", server: "", routes: [] } } },
  },
])("rejects $name", ({ change }) => {
  expect(() => buildDnsmasqArguments({ ...SERVED_NIC, ...change })).toThrow(
    expect.objectContaining({ code: "PODNET_ADDRESS_SERVER_FAILED" }),
  );
});
