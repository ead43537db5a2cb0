// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import {
  parseResult,
  buildDefaultNetworkStatuses,
  buildNetworkStatuses,
  listResultGateways,
  findNetworkStatus,
} from "./formats.ts";

const MAC = "92:79:27:01:7c:cf";
const NIC = { name: "net1", mac: MAC, sandbox: "/var/run/netns/x" };

test.each([
  {
    name: "both families and the MTU, without prefix lengths",
    result: {
      cniVersion: "1.0.0",
      interfaces: [{ ...NIC, mtu: 9000 }],
      ips: [{ address: "1.1.1.3/24" }, { address: "2001::1/64" }],
    },
    want: { ips: ["1.1.1.3", "2001::1"], mac: MAC, mtu: 9000, dns: {} },
  },
  {
    name: "the gateways of default routes, one with an empty destination",
    result: {
      cniVersion: "1.0.0",
      interfaces: [NIC],
      ips: [{ address: "1.1.1.3/24" }],
      routes: [{ dst: "0.0.0.0/0", gw: "10.10.10.10" }, { gw: "20.20.20.20" }],
    },
    want: { ips: ["1.1.1.3"], mac: MAC, dns: {}, gateway: ["10.10.10.10", "20.20.20.20"] },
  },
  {
    name: "the address's gateway for a default route without a gateway",
    result: {
      cniVersion: "1.0.0",
      interfaces: [{ name: "br" }, { name: "veth1" }, NIC],
      ips: [{ interface: 2, address: "10.99.0.10/24", gateway: "10.99.0.1" }],
      routes: [{ dst: "0.0.0.0/0" }],
      dns: {},
    },
    want: { ips: ["10.99.0.10"], mac: MAC, dns: {}, gateway: ["10.99.0.1"] },
  },
  {
    name: "no gateway without a default route",
    result: {
      cniVersion: "1.0.0",
      interfaces: [NIC],
      ips: [{ address: "1.1.1.3/24", gateway: "1.1.1.1" }],
    },
    want: { ips: ["1.1.1.3"], mac: MAC, dns: {} },
  },
  {
    name: "no gateway for a default route without a gateway and without addresses",
    result: { cniVersion: "1.0.0", interfaces: [NIC], routes: [{ dst: "::/0" }] },
    want: { mac: MAC, dns: {} },
  },
  {
    name: "no gateway if no gateway is known",
    result: {
      cniVersion: "1.0.0",
      interfaces: [NIC],
      ips: [{ address: "1.1.1.3/24" }],
      routes: [{ dst: "0.0.0.0/0" }],
    },
    want: { ips: ["1.1.1.3"], mac: MAC, dns: {} },
  },
  {
    name: "no gateway for a route to half of all addresses",
    result: {
      cniVersion: "1.0.0",
      interfaces: [NIC],
      routes: [{ dst: "0.0.0.0/1", gw: "1.1.1.1" }],
    },
    want: { mac: MAC, dns: {} },
  },
  {
    name: "no addresses of host interfaces",
    result: {
      cniVersion: "1.0.0",
      interfaces: [{ name: "br", sandbox: "" }, NIC],
      ips: [
        { interface: 0, address: "10.0.0.1/24" },
        { interface: 1, address: "10.0.0.2/24" },
      ],
    },
    want: { ips: ["10.0.0.2"], mac: MAC, dns: {} },
  },
  {
    name: "the requested one of several sandbox interfaces",
    result: {
      cniVersion: "1.1.0",
      interfaces: [{ ...NIC, name: "aux", mac: "02:00:00:00:00:01" }, NIC],
      dns: { nameservers: ["8.8.8.8"] },
    },
    want: { mac: MAC, dns: { nameservers: ["8.8.8.8"] } },
  },
  {
    name: "the requested interface for an old result without interface names",
    result: {
      cniVersion: "0.2.0",
      ip4: { ip: "10.99.0.11/24", gateway: "10.99.0.1", routes: [{ dst: "0.0.0.0/0" }] },
      dns: {},
    },
    want: { ips: ["10.99.0.11"], dns: {}, gateway: ["10.99.0.1"] },
  },
  {
    name: "the fields of a 0.4.0 result",
    result: {
      cniVersion: "0.4.0",
      interfaces: [{ name: "mxb1" }, { name: "v" }, NIC],
      ips: [{ version: "4", interface: 2, address: "10.99.0.11/24" }],
      dns: {},
    },
    want: { ips: ["10.99.0.11"], mac: MAC, dns: {} },
  },
  { name: "no addresses for an empty result", result: null, want: { dns: {} } },
])("the status entry has $name", ({ result, want }) => {
  const parsed = parseResult(JSON.stringify(result), "1.0.0");
  expect(parsed && findNetworkStatus(parsed, "ns1/n", "net1")).toEqual({
    name: "ns1/n",
    interface: "net1",
    ...want,
  });
});

test.each([
  "",
  "Usage",
  "[]",
  '{"interfaces":{}}',
  '{"interfaces":[1]}',
  '{"interfaces":[{"mac":"x"}]}',
  '{"interfaces":[{"name":"a","mac":1}]}',
  '{"interfaces":[{"name":"a","mtu":"1500"}]}',
  '{"interfaces":[{"name":"a","sandbox":1}]}',
  '{"ips":[{"gateway":"1.1.1.1"}]}',
  '{"ips":[{"address":"1.1.1.2/24","interface":"1"}]}',
  '{"ips":[{"address":"1.1.1.2/24","gateway":1}]}',
  '{"routes":[{"dst":1}]}',
  '{"routes":[{"dst":"::/0","gw":1}]}',
])("rejects %s as a result", (text) => {
  expect(parseResult(text, "1.0.0")).toBeUndefined();
});

test.each([
  { text: "{}", want: { cniVersion: "0.3.1" } },
  { text: '{"cniVersion":""}', want: { cniVersion: "0.3.1" } },
  { text: "null", want: { cniVersion: "0.3.1" } },
  { text: '{"ips":null,"routes":null}', want: { cniVersion: "0.3.1" } },
  {
    text: '{"ip4":{"ip":"1.2.3.4/24"}}',
    want: { cniVersion: "0.3.1", ips: [{ address: "1.2.3.4/24" }], routes: [], dns: undefined },
  },
])("the result $text takes the version of its configuration", ({ text, want }) => {
  expect(parseResult(text, "0.3.1")).toStrictEqual(want);
});

test("a result with an explicit version retains that version", () => {
  expect(parseResult('{"cniVersion":"0.4.0"}', "1.0.0")).toEqual({ cniVersion: "0.4.0" });
});

test("each interface gets its own addresses; the requested interface also gets unassigned addresses", () => {
  const result = {
    cniVersion: "1.1.0",
    interfaces: [{ name: "veth1" }, NIC, { name: "aux", mac: "02:00:00:00:00:01", sandbox: "/x" }],
    ips: [
      { interface: 1, address: "192.0.2.1/24" },
      { interface: 2, address: "192.0.2.3/24" },
      { interface: 0, address: "192.0.2.4/24" },
      { interface: 3, address: "192.0.2.5/24" },
      { interface: -1, address: "192.0.2.6/24" },
      { address: "192.0.2.2/24" },
    ],
    routes: [{ dst: "0.0.0.0/0", gw: "192.0.2.254" }],
  };
  expect(buildNetworkStatuses(result, "ns1/n", "net1")).toEqual([
    {
      name: "ns1/n",
      interface: "net1",
      mac: MAC,
      dns: {},
      gateway: ["192.0.2.254"],
      ips: ["192.0.2.1", "192.0.2.5", "192.0.2.6", "192.0.2.2"],
    },
    {
      name: "ns1/n",
      interface: "aux",
      mac: "02:00:00:00:00:01",
      dns: {},
      ips: ["192.0.2.3"],
    },
  ]);
});

const SANDBOX = { sandbox: "/n" };
test.each([
  { name: "the only NIC", result: { interfaces: [{ name: "eth0", ...SANDBOX }] }, want: ["eth0"] },
  { name: "a result without NICs", result: { ips: [{ address: "10.0.0.5/24" }] }, want: ["eth0"] },
  {
    name: "the NIC with the gateway",
    result: {
      interfaces: [
        { name: "eth0", ...SANDBOX },
        { name: "eth1", ...SANDBOX },
      ],
      ips: [{ interface: 1, address: "10.0.0.5/24", gateway: "10.0.0.1" }],
    },
    want: ["eth1"],
  },
  {
    name: "the first NIC if no NIC has a gateway or the requested name",
    result: { interfaces: ["a", "b"].map((nic) => ({ name: nic, ...SANDBOX })) },
    want: ["eth0"],
  },
])("the default network's entry is that of $name", ({ result, want }) => {
  const entries = buildDefaultNetworkStatuses({ cniVersion: "1.0.0", ...result }, "all", "eth0");
  const marked = entries.filter((entry) => entry.default === true);
  expect(marked.map((entry) => entry.interface)).toEqual(want);
});

test.each([
  { name: "an empty list of interfaces", text: '{"cniVersion":"1.0.0","interfaces":[]}', want: 0 },
  { name: "only DNS settings", text: '{"cniVersion":"0.3.1","dns":{}}', want: 0 },
  { name: "the text null", text: "null", want: 0 },
  {
    name: "only addresses",
    text: '{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.2/24"}]}',
    want: 1,
  },
  {
    name: "a host interface",
    text: '{"cniVersion":"1.0.0","interfaces":[{"name":"br1"}]}',
    want: 1,
  },
  { name: "a version too old for interface names", text: '{"cniVersion":"0.2.0"}', want: 1 },
])("a secondary network whose result has $name gets $want entries", ({ text, want }) => {
  const result = parseResult(text, "1.0.0");
  expect(result && buildNetworkStatuses(result, "ns1/n", "net1")).toHaveLength(want);
  expect(result && buildDefaultNetworkStatuses(result, "cbr0", "eth0")).toHaveLength(1);
});

test.each([
  {
    name: "those of default routes before those of addresses",
    result: {
      cniVersion: "1.0.0",
      interfaces: [NIC],
      ips: [{ address: "1.1.1.3/24", gateway: "1.1.1.1" }],
      routes: [{ dst: "0.0.0.0/0", gw: "1.1.1.254" }],
    },
    want: ["1.1.1.254", "1.1.1.1"],
  },
  {
    name: "an address's gateway without a route",
    result: {
      cniVersion: "1.0.0",
      interfaces: [{ name: "br" }, NIC],
      ips: [{ interface: 1, address: "1.1.1.3/24", gateway: "1.1.1.1" }],
    },
    want: ["1.1.1.1"],
  },
  {
    name: "none of another NIC",
    result: {
      cniVersion: "1.0.0",
      interfaces: [NIC, { name: "aux", sandbox: "/x" }],
      ips: [{ interface: 1, address: "1.1.1.3/24", gateway: "1.1.1.1" }],
    },
    want: [],
  },
])("lists the gateways of a NIC: $name", ({ result, want }) => {
  expect(listResultGateways(result, NIC.name)).toEqual(want);
});
