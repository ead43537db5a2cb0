// SPDX-License-Identifier: Apache-2.0
// What is refused of devices: how many there are, ports, queues, order, memory.
import { describe, expect, test } from "vitest";
import {
  BRIDGE,
  causesOf,
  IFACE,
  multus,
  POD,
  withDefault,
  type RuleRow,
} from "../testing/rule-rows.ts";
import { validateVmiSpec, validateVmSpec } from "./spec.ts";

const many = Array.from({ length: 65 }, (_unused, index) => `n${String(index)}`);

const COUNT_ROWS: readonly RuleRow[] = [
  {
    name: "the maximum number of networks, with the pod network",
    interfaces: [BRIDGE, ...many.slice(2).map((name) => ({ name, bridge: {} }))],
    networks: [POD, ...many.slice(2).map((name) => multus(name))],
    want: [],
  },
  {
    name: "the maximum number of networks, with a Multus network in its place",
    interfaces: [BRIDGE, ...many.slice(2).map((name) => ({ name, bridge: {} }))],
    networks: [
      { name: "default", multus: { networkName: "blue", default: true } },
      ...many.slice(2).map((name) => multus(name)),
    ],
    want: [],
  },
  {
    name: "more networks than the limit",
    interfaces: many.slice(1).map((name) => ({ name, bridge: {} })),
    networks: many.map((name) => multus(name)),
    want: [
      [
        "FieldValueInvalid",
        "fake.networks",
        "fake.networks list exceeds the 64 element limit in length",
      ],
    ],
  },
];

const ALONE_ROWS: readonly RuleRow[] = [
  {
    name: "an absent interface without a network",
    interfaces: [{ name: "a", bridge: {}, state: "absent" }],
    networks: [],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].name`,
        `${IFACE}[0].name 'a' not found. No network is named "a": add one to fake.networks, or give the interface the name of one`,
      ],
    ],
  },
  {
    name: "an interface without a network and without a binding",
    interfaces: [{ name: "a" }],
    networks: [],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0]`,
        'logical a interface must have exactly one binding method or binding plugin. Interface "a" has none: give it one, for example bridge: {}',
      ],
      [
        "FieldValueInvalid",
        `${IFACE}[0].name`,
        `${IFACE}[0].name 'a' not found. No network is named "a": add one to fake.networks, or give the interface the name of one`,
      ],
    ],
  },
  {
    name: "two interfaces without a network, with the same MAC",
    interfaces: ["a", "b"].map((name) => ({ name, bridge: {}, macAddress: "02:00:00:00:00:0a" })),
    networks: [],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].name`,
        `${IFACE}[0].name 'a' not found. No network is named "a": add one to fake.networks, or give the interface the name of one`,
      ],
      [
        "FieldValueInvalid",
        `${IFACE}[1].name`,
        `${IFACE}[1].name 'b' not found. No network is named "b": add one to fake.networks, or give the interface the name of one`,
      ],
    ],
  },
  {
    name: "SR-IOV with link state down",
    interfaces: [{ name: "blue", sriov: {}, state: "down" }],
    networks: [multus("blue")],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].state`,
        `"blue" interface's state "down" is not supported for SR-IOV NICs`,
      ],
    ],
  },
  {
    name: "bridge with the MAC of masquerade's bridge",
    ...withDefault({ macAddress: "02:00:00:00:00:00" }),
    want: [],
  },
  {
    name: "two different MACs on one network",
    interfaces: [
      { name: "a", bridge: {}, macAddress: "02:00:00:00:00:0a" },
      { name: "b", bridge: {}, macAddress: "02:00:00:00:00:0b" },
    ],
    networks: [multus("a"), multus("b")],
    want: [],
  },
  {
    name: "a duplicate ACPI index",
    interfaces: ["a", "b"].map((name) => ({ name, bridge: {}, acpiIndex: 7 })),
    networks: [multus("a"), multus("b")],
    want: [
      ["FieldValueDuplicate", `${IFACE}[1].acpiIndex`, "acpiIndex 7 is also that of interface 'a'"],
    ],
  },
  ...[1, 16_383].map((acpiIndex) => ({
    name: `the ACPI index ${String(acpiIndex)}`,
    ...withDefault({ acpiIndex }),
    want: [],
  })),
  ...[0, 16_384].map((acpiIndex): RuleRow => ({
    name: `the ACPI index ${String(acpiIndex)}`,
    ...withDefault({ acpiIndex }),
    want: [
      ["FieldValueInvalid", `${IFACE}[0].acpiIndex`, "must be between 1 and 16383, inclusive"],
    ],
  })),
];

describe.each([
  ["how many there are", COUNT_ROWS],
  ["interfaces", ALONE_ROWS],
])("%s", (_title, rows) => {
  test.each(rows)("$name", ({ want, ...row }) => {
    expect(causesOf(row)).toEqual(want);
  });
});

describe("ports and queues", () => {
  const outOfBounds = "must be between 0 and 128, inclusive";
  const noPorts = (type: string): string =>
    `machine type ${type} has no PCIe ports; any of the 30 devices of its bus can be plugged while the VM runs`;
  type PortRow = {
    readonly ports?: number;
    readonly type?: string;
    readonly want: readonly (readonly [string, string])[];
  };
  test.each<PortRow>([
    { ports: 0, want: [] },
    { ports: 128, want: [] },
    { ports: -1, want: [["FieldValueInvalid", outOfBounds]] },
    { ports: 129, want: [["FieldValueInvalid", outOfBounds]] },
    { ports: 1.5, want: [["FieldValueInvalid", outOfBounds]] },
    { ports: 4, type: "", want: [] },
    { ports: 4, type: "q35", want: [] },
    { ports: 4, type: "pc-q35-9.0", want: [] },
    { ports: 0, type: "pc", want: [["FieldValueForbidden", noPorts("pc")]] },
    { ports: 4, type: "pc-i440fx-7.2", want: [["FieldValueForbidden", noPorts("pc-i440fx-7.2")]] },
    { type: "pc", want: [] },
  ])("$ports ports on machine type $type", ({ ports, type, want }) => {
    const devices = ports === undefined ? {} : { pcieRootPorts: ports };
    const machine = type === undefined ? {} : { machine: { type } };
    expect(validateVmiSpec({ domain: { devices, ...machine } }, "fake")).toEqual(
      want.map(([reason, message]) => ({
        reason,
        field: "fake.domain.devices.pcieRootPorts",
        message,
      })),
    );
  });

  test.each(["", "virtio", "e1000", "e1000e", "rtl8139"])(
    "accepts networkInterfaceMultiqueue beside model '%s'",
    (model) => {
      const interfaces = [
        { name: "blue", bridge: {}, model },
        { name: "red", bridge: {} },
      ];
      const spec = {
        domain: { devices: { interfaces, networkInterfaceMultiqueue: true } },
        networks: [multus("blue"), multus("red")],
      };
      expect(validateVmiSpec(spec, "fake")).toEqual([]);
    },
  );
});

test.each([
  { given: {}, want: [] },
  { given: { running: true }, want: [] },
  { given: { runStrategy: "Always" }, want: [] },
  { given: { running: false, runStrategy: "Always" }, want: ["spec.running"] },
] as const)("reports running beside runStrategy once: $given", ({ given: input, want }) => {
  const causes = validateVmSpec({ ...input, template: { spec: { domain: {} } } });
  expect(causes.map(({ field }) => field)).toEqual(want);
});

test.each([
  { domain: { resources: {} }, want: [] },
  { domain: { resources: { requests: {} } }, want: [] },
  { domain: { memory: { guest: "128Mi" }, resources: { requests: { memory: "1Gi" } } }, want: [] },
  {
    domain: { memory: { guest: "128Mx" } },
    want: [
      {
        reason: "FieldValueInvalid",
        field: "fake.domain.memory.guest",
        message: "128Mx is not a quantity; write, for example, 128Mi",
      },
    ],
  },
])("reports unreadable memory quantities: $domain", ({ domain, want }) => {
  expect(validateVmiSpec({ domain }, "fake")).toEqual(want);
});
