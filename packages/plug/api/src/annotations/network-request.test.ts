// SPDX-License-Identifier: Apache-2.0
// Which values of an element can a network be asked for, and where is what is wrong?
import { expect, test } from "vitest";
import { gatewaysOf, requestCausesOf } from "./network-request.ts";
import type { NetworkSelection } from "./networks.ts";

/** As `FIELD: MESSAGE`. */
function causesOf(element: Omit<NetworkSelection, "name">): readonly string[] {
  const causes = requestCausesOf({ name: "blue", ...element });
  return causes.map(({ field, message }) => `${field}: ${message}`);
}

test.each<{ name: string; element: Omit<NetworkSelection, "name"> }>([
  { name: "nothing", element: {} },
  { name: "a MAC", element: { mac: "02-00-00-00-00-01" } },
  { name: "a GUID", element: { "infiniband-guid": "24:8a:07:03:00:8d:ae:2e" } },
  { name: "addresses with and without prefix", element: { ips: ["10.0.0.1", "fd00::1/64"] } },
  { name: "no addresses", element: { ips: [], "ipam-claim-reference": "vm1.blue" } },
  {
    name: "ports at both ends",
    element: {
      portMappings: [
        { hostPort: 1, containerPort: 65_535 },
        { hostPort: 80, containerPort: 80, protocol: "SCTP", hostIP: "10.0.0.1" },
        { hostPort: 80, containerPort: 80, protocol: "udp", hostIP: "::" },
      ],
    },
  },
  {
    name: "bandwidth in one direction, and zero bursts",
    element: { bandwidth: { ingressRate: 1000, ingressBurst: 1, egressBurst: 0 } },
  },
  { name: "a gateway of each family", element: { "default-route": ["10.0.0.1", "fd00::1"] } },
  { name: "a device", element: { deviceID: "0000:03:02.1" } },
])("$name can be asked for", ({ element }) => {
  expect(causesOf(element)).toEqual([]);
});

test.each<{ name: string; element: Record<string, unknown>; want: readonly string[] }>([
  {
    name: "a MAC that is none",
    element: { mac: "x" },
    want: ['mac: "x" is not a MAC address of six bytes'],
  },
  {
    name: "a MAC as long as a GUID, and a GUID as short as a MAC",
    element: { mac: "24:8a:07:03:00:8d:ae:2e", "infiniband-guid": "02:00:00:00:00:01" },
    want: [
      'mac: "24:8a:07:03:00:8d:ae:2e" is not a MAC address of six bytes',
      'infiniband-guid: "02:00:00:00:00:01" is not a GUID of eight bytes',
    ],
  },
  {
    name: "a GUID that is no text",
    element: { "infiniband-guid": 1 },
    want: ["infiniband-guid: 1 is not a GUID of eight bytes"],
  },
  {
    name: "each address that is none",
    element: { ips: ["foo", "10.0.0.1", "10.0.0.1/33"] },
    want: ['ips[0]: "foo" is not an IP address', 'ips[2]: "10.0.0.1/33" is not an IP address'],
  },
  {
    name: "ports that are no list",
    element: { portMappings: {} },
    want: ["portMappings: is not a list"],
  },
  {
    name: "a mapping that is no object",
    element: { portMappings: [80] },
    want: ["portMappings[0]: is not an object"],
  },
  {
    name: "all that is wrong with mappings",
    element: {
      portMappings: [
        { hostPort: "80", containerPort: 0 },
        { hostPort: 65_536, containerPort: 1.5, protocol: "icmp", hostIP: "10.0.0.0/8" },
        { protocol: 6, hostIP: 1 },
      ],
    },
    want: [
      'portMappings[0].hostPort: "80" is not a port from 1 to 65535',
      "portMappings[0].containerPort: 0 is not a port from 1 to 65535",
      "portMappings[1].hostPort: 65536 is not a port from 1 to 65535",
      "portMappings[1].containerPort: 1.5 is not a port from 1 to 65535",
      'portMappings[1].protocol: "icmp" is not TCP, UDP or SCTP',
      'portMappings[1].hostIP: "10.0.0.0/8" is not an IP address',
      "portMappings[2].hostPort: null is not a port from 1 to 65535",
      "portMappings[2].containerPort: null is not a port from 1 to 65535",
      "portMappings[2].protocol: 6 is not TCP, UDP or SCTP",
      "portMappings[2].hostIP: 1 is not an IP address",
    ],
  },
  {
    name: "bandwidth that is no object",
    element: { bandwidth: 5 },
    want: ["bandwidth: is not an object"],
  },
  {
    name: "all that is wrong with bandwidth",
    element: { bandwidth: { ingressRate: -1, ingressBurst: "1", egressBurst: 9, egressRate: 0 } },
    want: [
      "bandwidth.ingressRate: -1 is not a number of bits",
      'bandwidth.ingressBurst: "1" is not a number of bits',
      "bandwidth.egressBurst: needs egressRate beside it",
    ],
  },
  {
    name: "a burst without its rate",
    element: { bandwidth: { ingressBurst: 1 } },
    want: ["bandwidth.ingressBurst: needs ingressRate beside it"],
  },
  {
    name: "routes that are no list",
    element: { "default-route": "10.0.0.1" },
    want: ["default-route: is not a list of gateways"],
  },
  {
    name: "no gateway",
    element: { "default-route": [] },
    want: ["default-route: is not a list of gateways"],
  },
  {
    name: "gateways that are none, and the second of a family",
    element: {
      "default-route": ["10.0.0.1", "10.0.0.2", "10.0.0.3/24", null, "fd00::1", "fd00::2"],
    },
    want: [
      "default-route[1]: is a second gateway of IPv4",
      'default-route[2]: "10.0.0.3/24" is not an IP address',
      "default-route[3]: null is not an IP address",
      "default-route[5]: is a second gateway of IPv6",
    ],
  },
  {
    name: "a device without an ID",
    element: { deviceID: "" },
    want: ['deviceID: "" is not the ID of a device'],
  },
  {
    name: "a claim that cannot be one",
    element: { "ipam-claim-reference": "A B" },
    want: ['ipam-claim-reference: "A B" is not the name of an IPAMClaim'],
  },
  {
    name: "a claim beside addresses",
    element: { "ipam-claim-reference": "vm1.blue", ips: ["10.0.0.1"] },
    want: ["ipam-claim-reference: cannot be beside ips"],
  },
  {
    name: "everything at once",
    element: { mac: "x", ips: ["y"], "default-route": ["z"] },
    want: [
      'mac: "x" is not a MAC address of six bytes',
      'ips[0]: "y" is not an IP address',
      'default-route[0]: "z" is not an IP address',
    ],
  },
])("$name is told", ({ element, want }) => {
  expect(causesOf(element)).toEqual(want);
});

test("no more than the head of a value is repeated", () => {
  const [cause = ""] = causesOf({ mac: "A".repeat(1000) });
  expect(cause.length).toBeLessThan(120);
});

test.each<{ asked: unknown; want: readonly string[] }>([
  { asked: undefined, want: [] },
  { asked: "10.0.0.1", want: [] },
  { asked: ["10.0.0.1", "fd00::1"], want: ["10.0.0.1", "fd00::1"] },
  { asked: ["x", 1], want: [] },
])("the gateways of $asked are $want", ({ asked, want }) => {
  expect(gatewaysOf({ name: "a", "default-route": asked })).toEqual(want);
});
