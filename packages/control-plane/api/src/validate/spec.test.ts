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
import {
  validateVmiSpec,
  validateVmSpec,
  validateVmChange,
  validateVmiChange,
  validateVmiNetworkChange,
} from "./spec.ts";
import type { Iface, Network } from "../kinds/network.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import type { VmSpec } from "../kinds/vm.ts";

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

test.each(KUBEVIRT_ROWS)("like KubeVirt: $name", ({ interfaces, networks, want }) => {
  expect(causesOf({ interfaces, networks })).toEqual(want);
});

describe("a whole specification", () => {
  test("reports all causes in the order of the rules", () => {
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

  test("accepts a discontinued binding only in an existing VM", () => {
    const spec = specOf(withDefault({ slirp: {} }));
    expect(validateVmiSpec(spec, "spec", "update")).toEqual([]);
    expect(validateVmiSpec(spec, "spec", "create").map(({ field }) => field)).toEqual([
      "spec.domain.devices.interfaces[0].slirp",
    ]);
  });

  test("accepts a specification without interfaces", () => {
    expect(validateVmiSpec({ domain: {} }, "spec")).toEqual([]);
  });

  test("validates a VM's template, and allows only one of running and runStrategy", () => {
    const template = { spec: specOf({ interfaces: [BRIDGE], networks: [] }) };
    const causes = validateVmSpec({ running: true, runStrategy: "Always", template });
    expect(causes.map(({ field }) => field)).toEqual([
      "spec.running",
      "spec.template.spec.domain.devices.interfaces[0].name",
    ]);
  });
});

const OLD: Iface = { name: "old", bridge: {}, model: "ne3k" };
const FINE: Iface = { name: "fine", bridge: {} };

function changedSpec(...interfaces: readonly Iface[]): VmiSpec {
  return {
    domain: { devices: { interfaces: [...interfaces] } },
    networks: interfaces.map(({ name }) => ({ name, multus: { networkName: "blue" } })),
  };
}

describe("a rule newer than the stored object", () => {
  test.each([
    { name: "an unplug", after: changedSpec(OLD, { ...FINE, state: "absent" }) },
    { name: "the removal of the previous entry", after: changedSpec(OLD) },
    { name: "the removal of the invalid entry", after: changedSpec(FINE) },
    {
      name: "an unplug of the invalid entry",
      after: changedSpec(FINE, { ...OLD, state: "absent" }),
    },
  ])("does not block $name", ({ after }) => {
    expect(validateVmiChange(changedSpec(FINE, OLD), after)).toEqual([]);
    const [before, template] = [changedSpec(FINE, OLD), after].map((spec) => ({
      template: { spec },
    }));
    expect(validateVmChange(before, template ?? { template: { spec: after } })).toEqual([]);
  });

  test("matches entries by name, however many there are", () => {
    const others = Array.from({ length: 11 }, (_unused, index) => ({
      ...FINE,
      name: `n${String(index)}`,
    }));
    expect(
      validateVmiChange(changedSpec(...others, OLD), changedSpec(...others.slice(1), OLD)),
    ).toEqual([]);
  });

  test.each([
    { name: "a new iface", after: changedSpec(FINE, OLD, { ...OLD, name: "new" }) },
    { name: "a changed value", after: changedSpec(FINE, { ...OLD, model: "ne4k" }) },
  ])("applies to $name", ({ after }) => {
    expect(validateVmiChange(changedSpec(FINE, OLD), after)).toHaveLength(1);
    expect(validateVmiChange(undefined, after).length).toBeGreaterThan(0);
  });
});

test("rejects a new unreadable memory quantity with its path", () => {
  const spec: VmiSpec = {
    domain: { memory: { guest: "12Gx" }, resources: { requests: { memory: "lots" } } },
  };
  expect(validateVmChange(undefined, { template: { spec } }).map(({ field }) => field)).toEqual([
    "spec.template.spec.domain.memory.guest",
    "spec.template.spec.domain.resources.requests.memory",
  ]);
  expect(validateVmiChange(spec, { ...spec, nodeSelector: {} })).toEqual([]);
});

const POD_ENTRY: Network = { name: "default", pod: {} };
const BLUE: Network = { name: "blue", multus: { networkName: "blue" } };
const OWN: Network = { name: "own", multus: { networkName: "own", default: true } };

function withNetworks(networks: readonly Network[] | undefined): VmiSpec {
  return { domain: {}, ...(networks === undefined ? {} : { networks: [...networks] }) };
}

describe("the default network of a running VMI", () => {
  type Row = {
    readonly name: string;
    readonly before?: readonly Network[];
    readonly after?: readonly Network[];
    readonly lost: readonly string[];
  };
  test.each<Row>([
    {
      name: "may stay beside a new network",
      before: [POD_ENTRY],
      after: [POD_ENTRY, BLUE],
      lost: [],
    },
    {
      name: "may stay beside a removed network",
      before: [POD_ENTRY, BLUE],
      after: [POD_ENTRY],
      lost: [],
    },
    { name: "cannot be removed", before: [POD_ENTRY], after: [BLUE], lost: ["default"] },
    { name: "cannot be removed as the last network", before: [POD_ENTRY], lost: ["default"] },
    { name: "may be missing from the start", after: [BLUE], lost: [] },
    {
      name: "cannot be renamed",
      before: [POD_ENTRY],
      after: [{ ...POD_ENTRY, name: "b" }],
      lost: ["default"],
    },
    {
      name: "cannot become a secondary network",
      before: [POD_ENTRY],
      after: [{ name: "default", multus: { networkName: "blue" } }],
      lost: ["default"],
    },
    {
      name: "cannot become another Multus network",
      before: [OWN],
      after: [{ name: "own", multus: { networkName: "other", default: true } }],
      lost: ["own"],
    },
    {
      name: "of Multus cannot become the pod network",
      before: [OWN],
      after: [{ ...POD_ENTRY, name: "own" }],
      lost: ["own"],
    },
    {
      name: "of Multus cannot have two sources",
      before: [OWN],
      after: [{ ...OWN, pod: {} }],
      lost: ["own"],
    },
    { name: "of Multus may stay", before: [OWN], after: [OWN, BLUE], lost: [] },
    {
      name: "of Multus cannot become a secondary network",
      before: [OWN],
      after: [{ name: "own", multus: { networkName: "own" } }],
      lost: ["own"],
    },
  ])("$name", ({ before, after, lost }) => {
    expect(validateVmiNetworkChange(withNetworks(before), withNetworks(after))).toEqual(
      lost.map((name) => ({
        reason: "FieldValueForbidden",
        field: "spec.networks",
        message: `network '${name}' is the default network of the pod and cannot be removed or replaced while the VMI runs`,
      })),
    );
  });
});

test.each([
  { before: undefined, after: [OWN, BLUE], added: ["own"] },
  { before: [BLUE], after: [BLUE, POD_ENTRY], added: ["default"] },
  {
    before: [BLUE],
    after: [{ ...BLUE, multus: { networkName: "blue", default: true } }],
    added: ["blue"],
  },
])("a running VMI gets no default network: $added", ({ before, after, added }) => {
  expect(validateVmiNetworkChange(withNetworks(before), withNetworks(after))).toEqual(
    added.map((name) => ({
      reason: "FieldValueForbidden",
      field: "spec.networks",
      message: `network '${name}' would be the default network of the pod and cannot be added while the VMI runs`,
    })),
  );
});

const PATH = "spec.dataVolumeTemplates[0]";
const PVC = { pvc: {}, source: { blank: {} } };

function vmWith(template: object, volume: object = { dataVolume: { name: "root" } }): VmSpec {
  const spec = {
    template: { spec: { domain: {}, volumes: [{ name: "root", ...volume }] } },
    dataVolumeTemplates: [template],
  };
  // Rows hold what a client may send, which is wider than the types.
  return spec as unknown as VmSpec;
}

const NAMED = { metadata: { name: "root" } };

test.each([
  { name: "a volume uses it", vm: vmWith({ ...NAMED, spec: PVC }), want: [] },
  {
    name: "a volume uses its claim",
    vm: vmWith(
      { ...NAMED, spec: { storage: {} } },
      { persistentVolumeClaim: { claimName: "root" } },
    ),
    want: [],
  },
  {
    name: "the name is missing",
    vm: vmWith({ spec: PVC }),
    want: [
      [
        "FieldValueRequired",
        `${PATH}.name`,
        `'name' field must not be empty for DataVolumeTemplate entry ${PATH}.name.`,
      ],
    ],
  },
  {
    name: "no volume uses it",
    vm: vmWith({ metadata: { name: "other" }, spec: PVC }),
    want: [
      [
        "FieldValueRequired",
        PATH,
        `DataVolumeTemplate entry ${PATH} must be referenced in the VMI template's 'volumes' list`,
      ],
    ],
  },
  {
    name: "neither pvc nor storage is set",
    vm: vmWith({ ...NAMED, spec: { source: { blank: {} } } }),
    want: [["FieldValueInvalid", `${PATH}.spec`, "Missing Data volume PVC or Storage"]],
  },
  {
    name: "both pvc and storage are set",
    vm: vmWith({ ...NAMED, spec: { pvc: {}, storage: {} } }),
    want: [
      [
        "FieldValueInvalid",
        `${PATH}.spec`,
        "Duplicate storage definition, both target storage and target pvc defined",
      ],
    ],
  },
])("the DataVolume of a VM: $name", ({ vm, want }) => {
  const causes = validateVmChange(undefined, vm);
  expect(causes.map(({ reason, field, message }) => [reason, field, message])).toEqual(want);
  expect(validateVmChange(vm, vm)).toEqual([]);
});

/** A VM's specification with that many NICs of one MAC, whose networks are listed in reverse. */
function withManyNics(count: number): VmSpec {
  const networks = Array.from({ length: count }, (_unused, index) => multus(`n${String(index)}`));
  const interfaces = networks
    .map(({ name }) => ({ name, bridge: {}, macAddress: "02:00:00:00:00:01" }))
    .toReversed();
  return { template: { spec: { domain: { devices: { interfaces } }, networks } } };
}

test("reports a list beyond its limit with one cause, before rules that compare items", () => {
  const causes = validateVmSpec(withManyNics(10_000), "create");
  const field = "spec.template.spec.domain.devices.interfaces";
  expect(causes).toEqual([
    {
      reason: "FieldValueInvalid",
      field,
      message: `${field} list exceeds the 64 element limit in length`,
    },
  ]);
});

test("stops judging at eight causes", () => {
  const { template } = withManyNics(20);
  const nameless = { ...template.spec, networks: [] };
  expect(validateVmSpec({ template: { spec: nameless } }, "create")).toHaveLength(8);
});

test("reports a new cause beside eight that the stored VM has", () => {
  const { template } = withManyNics(12);
  const before = { template: { spec: { ...template.spec, networks: [] } } };
  const { devices } = before.template.spec.domain;
  const interfaces = (devices?.interfaces ?? []).map((iface, index) =>
    index === 11 ? { ...iface, model: "none" } : iface,
  );
  const domain = { devices: { ...devices, interfaces } };
  const after = { template: { spec: { ...before.template.spec, domain } } };
  expect(validateVmChange(before, before)).toEqual([]);
  expect(validateVmChange(before, after).map(({ field }) => field)).toEqual([
    "spec.template.spec.domain.devices.interfaces[11].model",
  ]);
});
