// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { Iface, Network } from "../kinds/network.ts";
import { validateVmiSpec } from "./spec.ts";

const POD: Network = { name: "one", pod: {} };
const BLUE: Network = { name: "one", multus: { networkName: "blue" } };

/** Fields that are refused, below the iface or the network. */
function refused(iface: Omit<Iface, "name">, network: Network): readonly string[] {
  const devices = { interfaces: [{ name: "one", ...iface }] };
  const causes = validateVmiSpec({ domain: { devices }, networks: [network] }, "spec");
  return causes.map(({ field }) =>
    field.replace(/^spec\.(domain\.devices\.interfaces|networks)\[0\]\./, ""),
  );
}

const MASQUERADE = { masquerade: {} };
const BRIDGE = { bridge: {} };

describe("masquerade", () => {
  test.each<{ name: string; iface?: Omit<Iface, "name">; pod?: Network["pod"]; want: string[] }>([
    { name: "is taken with KubeVirt's subnets", want: [] },
    {
      name: "is taken with others",
      pod: { vmNetworkCIDR: "192.168.7.0/30", vmIPv6NetworkCIDR: "fd00::/64" },
      want: [],
    },
    {
      name: "is refused with subnets that are none, or too small",
      pod: { vmNetworkCIDR: "10.0.2.0/31", vmIPv6NetworkCIDR: "10.0.2.0/24" },
      want: ["pod.vmNetworkCIDR", "pod.vmIPv6NetworkCIDR"],
    },
    {
      name: "is taken with ports",
      iface: { ...MASQUERADE, ports: [{ port: 80 }, { name: "dns", port: 53, protocol: "UDP" }] },
      want: [],
    },
    {
      name: "is refused with ports that are none",
      iface: { ...MASQUERADE, ports: [{ port: 0 }, { port: 80, protocol: "icmp" }] },
      want: ["ports[0].port", "ports[1].protocol"],
    },
    {
      name: "is refused with ranges that are none",
      iface: {
        ...MASQUERADE,
        portRanges: [
          { protocol: "TCP", start: 90, end: 80 },
          { protocol: "x", start: 1, end: 65_535 },
          { protocol: "UDP", start: 1, end: 65_536 },
        ],
      },
      want: ["portRanges[0].start", "portRanges[1].protocol", "portRanges[2].end"],
    },
    {
      name: "is refused with ports beside ranges",
      iface: {
        ...MASQUERADE,
        ports: [{ port: 80 }],
        portRanges: [{ protocol: "TCP", start: 1, end: 9 }],
      },
      want: ["portRanges"],
    },
  ])("$name", ({ iface = MASQUERADE, pod = {}, want }) => {
    expect(refused(iface, { name: "one", pod })).toEqual(want);
  });
});

describe("what a guest may send", () => {
  test.each<{ name: string; said: Iface["portSecurity"]; network?: Network; want: string[] }>([
    {
      name: "is taken on another network",
      said: {
        mode: "Addresses",
        allowedMACs: ["00:00:5e:00:01:0a"],
        allowedAddresses: ["10.9.0.77", "fe80::/10"],
        allowServers: true,
      },
      want: [],
    },
    {
      name: "is refused in words that nobody knows",
      said: {
        mode: "mac",
        allowedMACs: ["01:00:5e:00:00:01", "x"],
        allowedAddresses: ["10.9.0", "::/0"],
      },
      want: [
        "portSecurity.mode",
        "portSecurity.allowedMACs[0]",
        "portSecurity.allowedMACs[1]",
        "portSecurity.allowedAddresses[0]",
        "portSecurity.allowedAddresses[1]",
      ],
    },
    {
      name: "is refused in lists without end",
      said: { allowedAddresses: Array.from({ length: 65 }, () => "10.9.0.1") },
      want: ["portSecurity.allowedAddresses"],
    },
    {
      name: "may be said on the pod network as it is",
      said: { mode: "Addresses" },
      network: POD,
      want: [],
    },
    {
      name: "may not be less on the pod network",
      said: { mode: "MAC" },
      network: POD,
      want: ["portSecurity"],
    },
    {
      name: "may not be more addresses on the pod network",
      said: { allowedAddresses: ["10.9.0.77"] },
      network: POD,
      want: ["portSecurity"],
    },
  ])("$name", ({ said, network = BLUE, want }) => {
    expect(refused({ ...BRIDGE, ...(said && { portSecurity: said }) }, network)).toEqual(want);
  });
});
