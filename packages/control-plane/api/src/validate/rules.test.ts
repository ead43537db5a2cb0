// SPDX-License-Identifier: Apache-2.0
// What each rule refuses, one row for each.
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

const SOURCE_ROWS: readonly RuleRow[] = [
  {
    name: "two pod networks",
    interfaces: [BRIDGE, { name: "b", bridge: {} }],
    networks: [POD, { name: "b", pod: {} }],
    want: [
      [
        "FieldValueDuplicate",
        "fake.interfaces",
        "more than one interface is connected to a pod network in fake.interfaces",
      ],
    ],
  },
  {
    name: "two default networks of Multus",
    interfaces: [BRIDGE, { name: "b", bridge: {} }],
    networks: [
      { name: "default", multus: { networkName: "x", default: true } },
      { name: "b", multus: { networkName: "y", default: true } },
    ],
    want: [
      ["FieldValueInvalid", "fake.networks", "Multus CNI should only have one default network"],
    ],
  },
  {
    name: "a pod network beside a default network of Multus",
    interfaces: [BRIDGE, { name: "b", bridge: {} }],
    networks: [POD, { name: "b", multus: { networkName: "y", default: true } }],
    want: [
      [
        "FieldValueInvalid",
        "fake.networks",
        "Pod network cannot be defined when Multus default network is defined",
      ],
    ],
  },
  {
    name: "a network without a source",
    interfaces: [BRIDGE],
    networks: [{ name: "default" }],
    want: [["FieldValueRequired", "fake.networks[0]", "should have a network type"]],
  },
  {
    name: "a network with two sources",
    interfaces: [BRIDGE],
    networks: [{ ...POD, multus: { networkName: "x" } }],
    want: [["FieldValueRequired", "fake.networks[0]", "should have only one network type"]],
  },
  {
    name: "an empty network name for Multus",
    interfaces: [BRIDGE],
    networks: [multus("default", "")],
    want: [
      ["FieldValueRequired", "fake.networks[0]", "CNI delegating plugin must have a networkName"],
    ],
  },
  {
    name: "a network name of three parts",
    interfaces: [BRIDGE],
    networks: [multus("default", "a/b/c")],
    want: [
      [
        "FieldValueInvalid",
        "fake.networks[0].multus.networkName",
        'networkName "a/b/c" must be NAME or NAMESPACE/NAME of a NetworkAttachmentDefinition',
      ],
    ],
  },
  {
    name: "two networks with one name",
    interfaces: [BRIDGE],
    networks: [multus("default"), multus("default", "other")],
    want: [
      [
        "FieldValueDuplicate",
        "fake.networks[1].name",
        'Network with name "default" already exists, every network must have a unique name',
      ],
    ],
  },
  {
    name: "a network that no interface uses",
    interfaces: [BRIDGE],
    networks: [POD, multus("blue")],
    want: [
      [
        "FieldValueRequired",
        "fake.networks[1].name",
        "fake.networks[1].name 'blue' not found. No interface is named \"blue\": add one to fake.domain.devices.interfaces, or remove the network",
      ],
    ],
  },
];

const BINDING_ROWS: readonly RuleRow[] = [
  {
    name: "no binding on a secondary network means bridge",
    interfaces: [{ name: "blue" }],
    networks: [multus("blue")],
    want: [],
  },
  {
    name: "absent without a binding on a secondary network",
    interfaces: [{ name: "blue", state: "absent" }],
    networks: [multus("blue")],
    want: [],
  },
  {
    name: "no binding on the pod network",
    interfaces: [{ name: "default" }],
    networks: [POD],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0]`,
        'logical default interface must have exactly one binding method or binding plugin. Interface "default" has none: give it one, for example masquerade: {}',
      ],
    ],
  },
  {
    name: "two bindings",
    interfaces: [{ name: "blue", bridge: {}, sriov: {} }],
    networks: [multus("blue")],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0]`,
        'logical blue interface must have exactly one binding method or binding plugin. Interface "blue" has bridge and sriov: keep one of them',
      ],
    ],
  },
  {
    name: "absent with SR-IOV",
    interfaces: [{ name: "blue", sriov: {}, state: "absent" }],
    networks: [multus("blue")],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].state`,
        `"blue" interface's state "absent" is supported only for bridge binding`,
      ],
    ],
  },
  {
    name: "masquerade on a secondary network",
    interfaces: [{ name: "blue", masquerade: {} }],
    networks: [multus("blue")],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].name`,
        "Masquerade interface only implemented with pod network",
      ],
    ],
  },
  {
    name: "masquerade on a Multus network in place of the pod network",
    interfaces: [{ name: "blue", masquerade: {} }],
    networks: [{ name: "blue", multus: { networkName: "blue", default: true } }],
    want: [],
  },
  {
    name: "no binding on a Multus network in place of the pod network",
    interfaces: [{ name: "blue" }],
    networks: [{ name: "blue", multus: { networkName: "blue", default: true } }],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0]`,
        'logical blue interface must have exactly one binding method or binding plugin. Interface "blue" has none: give it one, for example masquerade: {}',
      ],
    ],
  },
  {
    name: "masquerade with the bridge's own MAC",
    interfaces: [{ name: "default", masquerade: {}, macAddress: "02-00-00-00-00-00" }],
    networks: [POD],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].macAddress`,
        "The requested MAC address is reserved for the in-pod bridge. Please choose another one.",
      ],
    ],
  },
];

const FIELD_ROWS: readonly RuleRow[] = [
  {
    name: "an interface name with a dot",
    interfaces: [{ name: "a.b", bridge: {} }],
    networks: [multus("a.b")],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].name`,
        "Network interface name can only contain alphabetical characters, numbers, dashes (-) or underscores (_)",
      ],
    ],
  },
  {
    name: "a model that KubeVirt does not have",
    ...withDefault({ model: "vmxnet3" }),
    want: [],
  },
  {
    name: "a multicast MAC",
    ...withDefault({ macAddress: "03:00:00:00:00:01" }),
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].macAddress`,
        `interface ${IFACE}[0].name has multicast MAC address (03:00:00:00:00:01).`,
      ],
    ],
  },
  {
    name: "an all-zero MAC",
    ...withDefault({ macAddress: "00:00:00:00:00:00" }),
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].macAddress`,
        `interface ${IFACE}[0].name has all-zero MAC address (00:00:00:00:00:00).`,
      ],
    ],
  },
  {
    name: "one MAC twice on one network",
    interfaces: [
      { name: "a", bridge: {}, macAddress: "02:00:00:00:00:0A" },
      { name: "b", bridge: {}, macAddress: "02-00-00-00-00-0a" },
    ],
    networks: [multus("a"), multus("b")],
    want: [
      [
        "FieldValueDuplicate",
        `${IFACE}[1].macAddress`,
        `interface ${IFACE}[1].name has the MAC address 02:00:00:00:00:0a of interface 'a' on the same network`,
      ],
    ],
  },
  {
    name: "one MAC on two networks",
    interfaces: [
      { name: "a", bridge: {}, macAddress: "02:00:00:00:00:0a" },
      { name: "b", bridge: {}, macAddress: "02:00:00:00:00:0a" },
    ],
    networks: [multus("a"), multus("b", "other")],
    want: [],
  },
];

describe.each([
  ["sources of networks", SOURCE_ROWS],
  ["bindings", BINDING_ROWS],
  ["names and addresses", FIELD_ROWS],
])("%s", (_title, rows) => {
  test.each(rows)("$name", ({ want, ...row }) => {
    expect(causesOf(row)).toEqual(want);
  });
});
