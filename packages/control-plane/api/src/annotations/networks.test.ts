// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import {
  isReadableSelection,
  parseNetworks,
  printNetworks,
  findGateways,
  validateNetworkSelection,
  type NetworkSelection,
} from "./networks.ts";
import { NETWORKS_MAX } from "../limits.ts";

test.each([
  { name: "a name with dots", text: "blue.v2", want: [{ name: "blue.v2" }] },
  {
    name: "a name with dots in JSON, and unknown keys",
    text: '[{"name":"blue.v2","namespace":"ns1","bandwidth":{"ingressRate":1}}]',
    want: [{ name: "blue.v2", namespace: "ns1", bandwidth: { ingressRate: 1 } }],
  },
  {
    name: "blanks around everything",
    text: " ns1 / blue @ net7 ,green",
    want: [{ name: "blue", namespace: "ns1", interface: "net7" }, { name: "green" }],
  },
  {
    name: "an interface of 15 bytes",
    text: '[{"name":"a","interface":"ééééééé1"}]',
    want: [{ name: "a", interface: "ééééééé1" }],
  },
  {
    name: "every key",
    text: '[{"name":"a","namespace":"b","mac":"c","interface":"d","interfaceRequest":"e","ips":["f"],"cni-args":{}}]',
    want: [
      {
        name: "a",
        namespace: "b",
        mac: "c",
        interface: "d",
        interfaceRequest: "e",
        ips: ["f"],
        "cni-args": {},
      },
    ],
  },
  {
    name: "an empty interface name and null CNI arguments",
    text: '[{"name":"a","interface":"","namespace":"","cni-args":null}]',
    want: [{ name: "a", interface: "", namespace: "", "cni-args": null }],
  },
  { name: "a text of the maximum length", text: " ".repeat(64 * 1024), want: [] },
  { name: "nothing", text: " ", want: [] },
  { name: "a missing annotation", text: undefined, want: [] },
])("parses $name", ({ text, want }) => {
  expect(parseNetworks(text)).toStrictEqual({ ok: true, elements: want });
});

test.each([
  { text: "a,,b", reason: '"" is not of the form [namespace/]name[@interface]' },
  { text: " a/b/c ", reason: '"a/b/c" is not of the form [namespace/]name[@interface]' },
  { text: " @net1 ", reason: '"@net1" is not of the form [namespace/]name[@interface]' },
  { text: "{}", reason: "the value is not a JSON list" },
  { text: "[", reason: "the value is not valid JSON" },
  { text: '["a"]', reason: "element 0 is not an object" },
  { text: '[{"name":"a"},[]]', reason: "element 1 is not an object" },
  { text: '[{"name":1}]', reason: "element 0: name is not a string" },
  { text: '[{"name":"a","namespace":1}]', reason: "element 0: namespace is not a string" },
  { text: '[{"name":"a","mac":{}}]', reason: "element 0: mac is not a string" },
  { text: '[{"name":"a","interface":null}]', reason: "element 0: interface is not a string" },
  {
    text: '[{"name":"a","interfaceRequest":0}]',
    reason: "element 0: interfaceRequest is not a string",
  },
  { text: '[{"name":"a","ips":"10.0.0.1"}]', reason: "element 0: ips is not a list of strings" },
  {
    text: '[{"name":"a","ips":["10.0.0.1",2]}]',
    reason: "element 0: ips is not a list of strings",
  },
  { text: '[{"name":"a","cni-args":[]}]', reason: "element 0: cni-args is not an object" },
  {
    text: "A".repeat(63),
    reason: `network "${"A".repeat(63)}" is not a valid object name`,
  },
  {
    text: "A".repeat(64),
    reason: `network "${"A".repeat(63)}…" is not a valid object name`,
  },
])("rejects $text: $reason", ({ text, reason }) => {
  expect(parseNetworks(text)).toEqual({ ok: false, reason });
});

test.each([
  { name: "a namespace with dots", text: "a.b/c", want: 'namespace "a.b" is not a valid' },
  { name: "a name that ends with a dot", text: "blue.", want: 'network "blue." is not a valid' },
  {
    name: "a missing name",
    text: '[{"interface":"net1"}]',
    want: "element 0: name is not a string",
  },
  {
    name: "an empty namespace",
    text: "/blue",
    want: '"/blue" is not of the form [namespace/]name',
  },
  {
    name: "an empty interface name",
    text: "blue@",
    want: '"blue@" is not of the form [namespace/]name',
  },
  {
    name: "an interface name of 15 characters and 16 bytes",
    text: '[{"name":"a","interface":"é12345678901234"}]',
    want: "has 1 to 15 bytes",
  },
  {
    name: "an interface name with a control character",
    text: '[{"name":"a","interface":"net\\u00071"}]',
    want: "is not a valid link name",
  },
  {
    name: "a deprecated key with a bad name",
    text: '[{"name":"a","interfaceRequest":"a/b"}]',
    want: "is not a valid link name",
  },
])("rejects $name", ({ text, want }) => {
  const parsed = parseNetworks(text);
  expect(parsed.ok ? "" : parsed.reason).toContain(want);
});

describe("size limits", () => {
  const names = (count: number): string => Array.from({ length: count }, () => "a").join(",");

  test("reads the maximum number of networks", () => {
    expect(parseNetworks(names(NETWORKS_MAX))).toMatchObject({ ok: true });
  });

  test.each([
    { name: "one network too many", text: names(NETWORKS_MAX + 1) },
    {
      name: "one network too many, as JSON",
      text: JSON.stringify(Array.from({ length: NETWORKS_MAX + 1 }, () => ({ name: "a" }))),
    },
  ])("rejects $name", ({ text }) => {
    expect(parseNetworks(text)).toEqual({ ok: false, reason: "it names more than 64 networks" });
  });

  test("rejects a text that is too long without parsing it", () => {
    expect(parseNetworks(`[${" ".repeat(70_000)}`)).toEqual({
      ok: false,
      reason: "it is longer than 65536 characters",
    });
  });

  test("quotes only the beginning of the rejected text", () => {
    const parsed = parseNetworks("A".repeat(60_000));
    expect(parsed.ok ? "" : parsed.reason.length).toBeLessThan(200);
  });
});

test("round-trips readable annotations", () => {
  const element = { name: "a.b", namespace: "ns1", interface: "pod0123456789a" };
  expect(isReadableSelection(element)).toBe(true);
  expect(parseNetworks(printNetworks([element]))).toEqual({ ok: true, elements: [element] });
  expect(isReadableSelection({ ...element, namespace: "a.b" })).toBe(false);
});

/** As `FIELD: MESSAGE`. */
function causesOf(element: Omit<NetworkSelection, "name">): readonly string[] {
  const causes = validateNetworkSelection({ name: "blue", ...element });
  return causes.map(({ field, message }) => `${field}: ${message}`);
}

test.each<{ name: string; element: Omit<NetworkSelection, "name"> }>([
  { name: "nothing", element: {} },
  { name: "a MAC", element: { mac: "02-00-00-00-00-01" } },
  { name: "a GUID", element: { "infiniband-guid": "24:8a:07:03:00:8d:ae:2e" } },
  { name: "addresses with and without prefix", element: { ips: ["10.0.0.1", "fd00::1/64"] } },
  { name: "no addresses", element: { ips: [], "ipam-claim-reference": "vm1.blue" } },
  {
    name: "the lowest and the highest port",
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
])("accepts $name", ({ element }) => {
  expect(causesOf(element)).toEqual([]);
});

test.each<{ name: string; element: Record<string, unknown>; want: readonly string[] }>([
  {
    name: "an invalid MAC",
    element: { mac: "x" },
    want: ['mac: "x" is not a MAC address of six bytes'],
  },
  {
    name: "a MAC with the length of a GUID, and a GUID with the length of a MAC",
    element: { mac: "24:8a:07:03:00:8d:ae:2e", "infiniband-guid": "02:00:00:00:00:01" },
    want: [
      'mac: "24:8a:07:03:00:8d:ae:2e" is not a MAC address of six bytes',
      'infiniband-guid: "02:00:00:00:00:01" is not a GUID of eight bytes',
    ],
  },
  {
    name: "a GUID that is not text",
    element: { "infiniband-guid": 1 },
    want: ["infiniband-guid: 1 is not a GUID of eight bytes"],
  },
  {
    name: "each invalid address",
    element: { ips: ["foo", "10.0.0.1", "10.0.0.1/33"] },
    want: ['ips[0]: "foo" is not an IP address', 'ips[2]: "10.0.0.1/33" is not an IP address'],
  },
  {
    name: "ports that are not a list",
    element: { portMappings: {} },
    want: ["portMappings: is not a list"],
  },
  {
    name: "a port mapping that is not an object",
    element: { portMappings: [80] },
    want: ["portMappings[0]: is not an object"],
  },
  {
    name: "the first eight errors of port mappings",
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
    ],
  },
  {
    name: "bandwidth that is not an object",
    element: { bandwidth: 5 },
    want: ["bandwidth: is not an object"],
  },
  {
    name: "all errors of bandwidth",
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
    name: "routes that are not a list",
    element: { "default-route": "10.0.0.1" },
    want: ["default-route: is not a list of gateways"],
  },
  {
    name: "an empty list of gateways",
    element: { "default-route": [] },
    want: ["default-route: is not a list of gateways"],
  },
  {
    name: "invalid gateways, and a second gateway of a family",
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
    name: "an invalid claim",
    element: { "ipam-claim-reference": "A B" },
    want: ['ipam-claim-reference: "A B" is not the name of an IPAMClaim'],
  },
  {
    name: "a claim with addresses",
    element: { "ipam-claim-reference": "vm1.blue", ips: ["10.0.0.1"] },
    want: ["ipam-claim-reference: cannot be beside ips"],
  },
  {
    name: "all errors at once",
    element: { mac: "x", ips: ["y"], "default-route": ["z"] },
    want: [
      'mac: "x" is not a MAC address of six bytes',
      'ips[0]: "y" is not an IP address',
      'default-route[0]: "z" is not an IP address',
    ],
  },
])("reports $name", ({ element, want }) => {
  expect(causesOf(element)).toEqual(want);
});

test("quotes only the beginning of a value", () => {
  const [cause = ""] = causesOf({ mac: "A".repeat(1000) });
  expect(cause.length).toBeLessThan(120);
});

test.each<{ asked: unknown; want: readonly string[] }>([
  { asked: undefined, want: [] },
  { asked: "10.0.0.1", want: [] },
  { asked: ["10.0.0.1", "fd00::1"], want: ["10.0.0.1", "fd00::1"] },
  { asked: ["x", 1], want: [] },
])("reads the gateways of $asked as $want", ({ asked: requested, want }) => {
  expect(findGateways({ name: "a", "default-route": requested })).toEqual(want);
});
