// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { Cause } from "../kinds/kubernetes/meta.ts";
import type { Iface, Network, DhcpOptions } from "../kinds/network.ts";
import { listGatedCauses } from "./iface-traffic.ts";
import { validateVmiSpec } from "./spec.ts";

const POD: Network = { name: "one", pod: {} };
const BLUE: Network = { name: "one", multus: { networkName: "blue" } };

function causesOf(iface: Omit<Iface, "name">, network: Network): readonly Cause[] {
  const devices = { interfaces: [{ name: "one", ...iface }] };
  return validateVmiSpec({ domain: { devices }, networks: [network] }, "spec");
}

/** Fields that are refused, below the iface or the network. */
function refused(iface: Omit<Iface, "name">, network: Network): readonly string[] {
  return causesOf(iface, network).map(({ field }) =>
    field.replace(/^spec\.(domain\.devices\.interfaces|networks)\[0\]\./, ""),
  );
}

/** Ranges of ports, each as `TCP 80-90`. */
function rangesOf(...ranges: readonly string[]): NonNullable<Iface["portRanges"]> {
  return ranges.map((text) => {
    const [protocol = "", start, end] = text.split(/[ -]/);
    return { protocol, start: Number(start), end: Number(end) };
  });
}

const MASQUERADE = { masquerade: {} };
const BRIDGE = { bridge: {} };

describe("masquerade", () => {
  test.each<{ name: string; iface?: Omit<Iface, "name">; pod?: Network["pod"]; want: string[] }>([
    { name: "is accepted with KubeVirt's subnets", want: [] },
    {
      name: "is accepted with other subnets",
      pod: { vmNetworkCIDR: "192.168.7.0/30", vmIPv6NetworkCIDR: "fd00::/64" },
      want: [],
    },
    {
      name: "is rejected with invalid or too small subnets",
      pod: { vmNetworkCIDR: "10.0.2.0/31", vmIPv6NetworkCIDR: "10.0.2.0/24" },
      want: ["pod.vmNetworkCIDR", "pod.vmIPv6NetworkCIDR"],
    },
    {
      name: "is accepted with ports",
      iface: { ...MASQUERADE, ports: [{ port: 80 }, { name: "dns", port: 53, protocol: "UDP" }] },
      want: [],
    },
    {
      name: "is rejected with invalid ports",
      iface: { ...MASQUERADE, ports: [{ port: 0 }, { port: 80, protocol: "icmp" }] },
      want: ["ports[0].port", "ports[1].protocol"],
    },
    {
      name: "is rejected with invalid port ranges",
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
      name: "is rejected with ports beside ranges",
      iface: {
        ...MASQUERADE,
        ports: [{ port: 80 }],
        portRanges: [{ protocol: "TCP", start: 1, end: 9 }],
      },
      want: ["name"],
    },
    {
      name: "is accepted with ranges that only touch or overlap in different protocols",
      iface: { ...MASQUERADE, portRanges: rangesOf("TCP 80-200", "UDP 150-300", "TCP 201-201") },
      want: [],
    },
    {
      name: "is rejected with overlapping and duplicate ranges",
      iface: {
        ...MASQUERADE,
        portRanges: rangesOf("UDP 22-22", "TCP 1-900", "TCP 80-90", "UDP 22-22", "TCP 100-1000"),
      },
      want: ["portRanges", "portRanges", "portRanges"],
    },
    {
      name: "is rejected once for an entry that is not a range",
      iface: { ...MASQUERADE, portRanges: rangesOf("TCP 90-80", "TCP 70-85") },
      want: ["portRanges[0].start"],
    },
  ])("$name", ({ iface = MASQUERADE, pod = {}, want }) => {
    expect(refused(iface, { name: "one", pod })).toEqual(want);
  });
});

describe("port ranges are rejected with KubeVirt's message", () => {
  test.each<{ name: string; iface: Omit<Iface, "name">; field: string; message: string }>([
    {
      name: "without masquerade",
      iface: { ...BRIDGE, portRanges: rangesOf("TCP 80-90") },
      field: "name",
      message: "portRanges are only supported on masquerade interfaces",
    },
    {
      name: "beside ports",
      iface: { ...MASQUERADE, portRanges: rangesOf("TCP 80-90"), ports: [{ port: 22 }] },
      field: "name",
      message: "Cannot define both ports and portRanges on interface",
    },
    {
      name: "that overlap",
      iface: { ...MASQUERADE, portRanges: rangesOf("TCP 150-300", "TCP 80-200") },
      field: "portRanges",
      message: "TCP portRanges [80-200] and [150-300] overlap",
    },
  ])("$name", ({ iface, field, message }) => {
    const path = `spec.domain.devices.interfaces[0].${field}`;
    expect(causesOf(iface, POD)).toEqual([{ reason: "FieldValueInvalid", field: path, message }]);
  });
});

describe("the port security of an interface", () => {
  test.each<{ name: string; said: Iface["portSecurity"]; network?: Network; want: string[] }>([
    {
      name: "is accepted on a secondary network",
      said: {
        mode: "Addresses",
        allowedMACs: ["00:00:5e:00:01:0a"],
        allowedAddresses: ["10.9.0.77", "fe80::/10"],
        allowServers: true,
      },
      want: [],
    },
    {
      name: "is rejected with unknown values",
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
      name: "is rejected with too many list entries",
      said: { allowedAddresses: Array.from({ length: 65 }, () => "10.9.0.1") },
      want: ["portSecurity.allowedAddresses"],
    },
    {
      name: "is accepted on the pod network with the default values",
      said: { mode: "Addresses" },
      network: POD,
      want: [],
    },
    {
      name: "cannot be disabled on the pod network",
      said: { mode: "MAC" },
      network: POD,
      want: ["portSecurity"],
    },
    {
      name: "cannot allow more addresses on the pod network",
      said: { allowedAddresses: ["10.9.0.77"] },
      network: POD,
      want: ["portSecurity"],
    },
  ])("$name", ({ said: message, network = BLUE, want }) => {
    expect(refused({ ...BRIDGE, ...(message && { portSecurity: message }) }, network)).toEqual(
      want,
    );
  });
});

function fieldsOf(dhcpOptions: DhcpOptions): readonly string[] {
  const spec = {
    domain: { devices: { interfaces: [{ name: "a", bridge: {}, dhcpOptions }] } },
    networks: [{ name: "a", multus: { networkName: "n" } }],
  };
  return validateVmiSpec(spec, "spec").map(({ field }) =>
    field.replace("spec.domain.devices.interfaces[0].dhcpOptions", ""),
  );
}

const TIME_SERVERS = Array.from({ length: 63 }, (_none, at) => `10.0.0.${String(at)}`);

test.each<{ name: string; options: DhcpOptions; want: readonly string[] }>([
  { name: "none", options: {}, want: [] },
  {
    name: "all options",
    options: {
      bootFileName: "a/b.efi",
      tftpServerName: "10.0.0.1",
      ntpServers: ["10.0.0.2"],
      privateOptions: [
        { option: 224, value: "1" },
        { option: 254, value: "ä,b" },
      ],
    },
    want: [],
  },
  {
    name: "duplicate options, and options outside the private range",
    options: {
      privateOptions: [
        { option: 224, value: "a" },
        { option: 224, value: "b" },
        { option: 255, value: "c" },
        { option: 223, value: "d" },
      ],
    },
    want: [".privateOptions[1].option", ".privateOptions[2].option", ".privateOptions[3].option"],
  },
  {
    name: "values that are empty or too long",
    options: {
      privateOptions: [
        { option: 224, value: "" },
        { option: 225, value: "ä".repeat(128) },
      ],
    },
    want: [".privateOptions[0].value", ".privateOptions[1].value"],
  },
  {
    name: "time servers as names or IPv6 addresses",
    options: { ntpServers: ["pool", "fd00::1", "10.0.0.1/24", "10.0.0.1"] },
    want: [".ntpServers[0]", ".ntpServers[1]", ".ntpServers[2]"],
  },
  {
    name: "time servers with leading zeros",
    options: { ntpServers: ["0127.0.0.3", "01.1.1.1"] },
    want: [],
  },
  { name: "time servers that fill option 42", options: { ntpServers: TIME_SERVERS }, want: [] },
  {
    name: "more time servers than fit into option 42",
    options: { ntpServers: [...TIME_SERVERS, "10.1.0.1"] },
    want: [".ntpServers"],
  },
  {
    name: "names that dnsmasq would split",
    options: { bootFileName: "a,b", tftpServerName: "a b" },
    want: [".bootFileName", ".tftpServerName"],
  },
])("DHCP options: $name", ({ options, want }) => {
  expect(fieldsOf(options)).toEqual(want);
});

test.each([
  { mtu: 576, want: [] },
  { mtu: 65_535, want: [] },
  { mtu: 575, want: ["mtu"] },
  { mtu: 65_536, want: ["mtu"] },
  { mtu: 1400.5, want: ["mtu"] },
])("an MTU of $mtu is rejected at $want", ({ mtu, want }) => {
  expect(refused({ ...BRIDGE, mtu }, BLUE)).toEqual(want);
});

describe("fields behind a feature gate", () => {
  const specOf = (...interfaces: Iface[]) => ({ domain: { devices: { interfaces } } });
  const [free, limited] = [{ name: "one" }, { name: "one", mtu: 1400 }];
  const field = "spec.domain.devices.interfaces[1].mtu";

  test.each<{
    name: string;
    before?: Iface;
    after: Iface;
    gates?: readonly "InterfaceMTUOverride"[];
    want: readonly string[];
  }>([
    { name: "are rejected in a new object", after: limited, want: [field] },
    { name: "are rejected if added", before: free, after: limited, want: [field] },
    {
      name: "are rejected if changed",
      before: { ...limited, mtu: 9000 },
      after: limited,
      want: [field],
    },
    { name: "remain in a stored object", before: limited, after: limited, want: [] },
    { name: "can be removed", before: limited, after: free, want: [] },
    { name: "do not block an unplug", after: { ...limited, state: "absent" }, want: [] },
    {
      name: "are accepted with the gate",
      after: limited,
      gates: ["InterfaceMTUOverride"],
      want: [],
    },
  ])("$name", ({ before, after, gates = [], want }) => {
    const specs = {
      ...(before === undefined ? {} : { before: specOf(before) }),
      after: specOf({ name: "zero" }, after),
      base: "spec",
    };
    const causes = listGatedCauses(specs, gates);
    expect(causes.map((cause) => cause.field)).toEqual(want);
    for (const { message } of causes) expect(message).toContain("InterfaceMTUOverride");
  });
});

test.each<{ iface: Omit<Iface, "name">; max?: number; want: readonly string[] }>([
  { iface: { queues: 1 }, max: 256, want: [] },
  { iface: { queues: 256, model: "virtio" }, max: 1, want: [] },
  { iface: { queues: 0 }, max: 0, want: [".interfaces[0].queues", ".maxNetworkInterfaceQueues"] },
  {
    iface: { queues: 257, model: "e1000" },
    want: [".interfaces[0].queues", ".interfaces[0].queues"],
  },
  { iface: { model: "e1000" }, max: 257, want: [".maxNetworkInterfaceQueues"] },
])("queues of $iface with a maximum of $max are rejected at $want", ({ iface, max, want }) => {
  const interfaces = [{ name: "one", bridge: {}, ...iface }];
  const limit = max === undefined ? {} : { maxNetworkInterfaceQueues: max };
  const spec = { domain: { devices: { interfaces, ...limit } }, networks: [BLUE] };
  expect(validateVmiSpec(spec, "spec").map(({ field }) => field)).toEqual(
    want.map((field) => `spec.domain.devices${field}`),
  );
});

test("limits of queues need their gate", () => {
  const interfaces = [{ name: "one", queues: 2 }];
  const after = { domain: { devices: { interfaces, maxNetworkInterfaceQueues: 2 } } };
  const causes = listGatedCauses({ after, base: "spec" }, ["InterfaceMTUOverride"]);
  expect(causes.map(({ field }) => field)).toEqual([
    "spec.domain.devices.maxNetworkInterfaceQueues",
    "spec.domain.devices.interfaces[0].queues",
  ]);
  expect(listGatedCauses({ after, base: "spec" }, ["NetworkInterfaceQueueLimits"])).toEqual([]);
  expect(listGatedCauses({ before: after, after, base: "spec" }, [])).toEqual([]);
});
