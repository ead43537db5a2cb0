// SPDX-License-Identifier: Apache-2.0
// The rows are KubeVirt's own expectations. Source: KubeVirt v1.9.0-rc.2 pkg/network/admitter/*_test.go.
import { describe, expect, test } from "vitest";
import {
  BRIDGE,
  causesOf,
  IFACE,
  multus,
  specOf,
  POD,
  withDefault,
  type RuleRow,
} from "../testing/rule-rows.ts";
import { validateVmiSpec, validateVmSpec } from "./spec.ts";

const KUBEVIRT_ROWS: readonly RuleRow[] = [
  ...["", "up", "down", "absent"].map((state) => ({
    name: `state '${state}' accepted for bridge`,
    interfaces: [{ name: "foo", bridge: {}, state }],
    networks: [multus("foo")],
    want: [],
  })),
  {
    name: "unknown state",
    interfaces: [{ name: "foo", masquerade: {}, state: "foo" }],
    networks: [{ name: "foo", pod: {} }],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].state`,
        "logical foo interface state value is unsupported: foo",
      ],
    ],
  },
  {
    name: "state up on SR-IOV",
    interfaces: [{ name: "foo", sriov: {}, state: "up" }],
    networks: [multus("foo")],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].state`,
        `"foo" interface's state "up" is not supported for SR-IOV NICs`,
      ],
    ],
  },
  {
    name: "absent on the default network",
    interfaces: [{ name: "foo", bridge: {}, state: "absent" }],
    networks: [{ name: "foo", pod: {} }],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].state`,
        `"foo" interface's state "absent" is not supported on default networks`,
      ],
    ],
  },
  {
    name: "interface without network",
    interfaces: [BRIDGE],
    networks: [],
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].name`,
        `${IFACE}[0].name 'default' not found. No network is named "default": add one to fake.networks, or give the interface the name of one`,
      ],
    ],
  },
  {
    name: "duplicate interface name",
    interfaces: [BRIDGE, { ...BRIDGE }],
    networks: [POD],
    want: [
      [
        "FieldValueDuplicate",
        `${IFACE}[1].name`,
        "Only one interface can be connected to one specific network",
      ],
    ],
  },
  {
    name: "bad model",
    ...withDefault({ model: "invalid_model" }),
    want: [
      [
        "FieldValueNotSupported",
        `${IFACE}[0].model`,
        `interface ${IFACE}[0].name uses model invalid_model that is not supported.`,
      ],
    ],
  },
  ...["DE:AD:00:00:BE:AF", "DE-AD-00-00-BE-AF"].map((macAddress) => ({
    name: `MAC ${macAddress} accepted`,
    ...withDefault({ macAddress }),
    want: [],
  })),
  {
    name: "MAC too short",
    ...withDefault({ macAddress: "de:ad:00:00:be" }),
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].macAddress`,
        `interface ${IFACE}[0].name has malformed MAC address (de:ad:00:00:be).`,
      ],
    ],
  },
  {
    name: "MAC too long",
    ...withDefault({ macAddress: "de:ad:00:00:be:af:be:af" }),
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].macAddress`,
        `interface ${IFACE}[0].name has too long MAC address (de:ad:00:00:be:af:be:af).`,
      ],
    ],
  },
  {
    name: "PCI address 0000:80:80:1.0 rejected",
    ...withDefault({ pciAddress: "0000:80:80:1.0" }),
    want: [
      [
        "FieldValueInvalid",
        `${IFACE}[0].pciAddress`,
        `interface ${IFACE}[0].name has malformed PCI address (0000:80:80:1.0).`,
      ],
    ],
  },
  {
    name: "PCI address 0000:81:11.1 accepted",
    ...withDefault({ pciAddress: "0000:81:11.1" }),
    want: [],
  },
];

test.each(KUBEVIRT_ROWS)("as KubeVirt: $name", ({ interfaces, networks, want }) => {
  expect(causesOf({ interfaces, networks })).toEqual(want);
});

describe("a whole specification", () => {
  test("gives all causes at once, in the order of the rules", () => {
    const spec = specOf({
      interfaces: [
        { name: "b.c", bridge: {}, model: "x", macAddress: "zz", state: "sideways" },
        { name: "d", bridge: {} },
      ],
      networks: [{ name: "b.c" }, multus("e")],
    });
    expect(validateVmiSpec(spec, "spec").map(({ field }) => field)).toEqual([
      "spec.networks[0]",
      "spec.domain.devices.interfaces[0].state",
      "spec.networks[1].name",
      "spec.domain.devices.interfaces[1].name",
      "spec.domain.devices.interfaces[0].name",
      "spec.domain.devices.interfaces[0].model",
      "spec.domain.devices.interfaces[0].macAddress",
    ]);
  });

  test("with a discontinued binding may stay but not come new", () => {
    const spec = specOf(withDefault({ slirp: {} }));
    expect(validateVmiSpec(spec, "spec", "update")).toEqual([]);
    expect(validateVmiSpec(spec, "spec", "create").map(({ field }) => field)).toEqual([
      "spec.domain.devices.interfaces[0].slirp",
    ]);
  });

  test("without any interface is fine", () => {
    expect(validateVmiSpec({ domain: {} }, "spec")).toEqual([]);
  });

  test("of a VM is judged at its template, and says when it runs in one way only", () => {
    const template = { spec: specOf({ interfaces: [BRIDGE], networks: [] }) };
    const causes = validateVmSpec({ running: true, runStrategy: "Always", template });
    expect(causes.map(({ field }) => field)).toEqual([
      "spec.running",
      "spec.template.spec.domain.devices.interfaces[0].name",
    ]);
  });
});
