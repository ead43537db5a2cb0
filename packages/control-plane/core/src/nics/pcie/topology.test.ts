// SPDX-License-Identifier: Apache-2.0
// Where do the NICs of a VMI go, how many queues have they, and what does a VM remember of that?
import {
  names,
  networkConfigOf,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { printPcieTopology } from "@patchbay/api/annotations";
import { printPciAddress, TOPOLOGY_VERSION } from "@patchbay/domain";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { buildVmStatus } from "../../status/vm.ts";
import { formatProblems, vmiStartProblems } from "../../vm/start-problems.ts";
import { readRecordedNicAddresses, readRecordedTopology, readTopologyVersion } from "./devices.ts";
import {
  readRequestedAddress,
  findModelName,
  planVmiTopology,
  countQueues,
  toFieldProblems,
} from "./topology.ts";
import { vmiOf } from "../../vm/vm.ts";

const CONFIG = networkConfigOf(undefined);
type Domain = VmiSpec["domain"];

function aVmiOf(
  change: Partial<Domain> = {},
  annotations: Readonly<Record<string, string>> = {},
): VirtualMachineInstance {
  const vmi = aVmi({ nics: [{ name: "a" }, { name: "b", state: "absent" }, { name: "c" }] });
  const devices = { ...vmi.spec.domain.devices, ...change.devices };
  const domain = { ...vmi.spec.domain, ...change, devices };
  return { ...vmi, metadata: { ...vmi.metadata, annotations }, spec: { ...vmi.spec, domain } };
}

function layoutOf(vmi: VirtualMachineInstance): unknown {
  const plan = planVmiTopology(vmi, CONFIG);
  if (!plan.ok) return plan.problems;
  const places = [...plan.topology.nicAddresses].map(
    ([name, address]) => `${name} ${printPciAddress(address)}`,
  );
  return { ports: plan.topology.ports.length, places };
}

function statusOf(vm: VirtualMachine, vmi: VirtualMachineInstance | undefined) {
  return buildVmStatus(
    {
      vm,
      vmi,
      startProblems: [],
      hasNameConflict: false,
      failures: [],
      bindings: {},
      isStaged: false,
      waitsForBinding: false,
    },
    "2026-01-01T00:00:00Z",
  );
}

describe("a VMI is laid out", () => {
  test.each([
    {
      name: "with the cluster's reserve beside its NICs; an absent one has no place",
      vmi: aVmiOf(),
      want: { ports: 35, places: ["a 0000:02:00.0", "c 0000:03:00.0"] },
    },
    {
      name: "with its own reserve",
      vmi: aVmiOf({ devices: { pcieRootPorts: 1 } }),
      want: { ports: 4, places: ["a 0000:02:00.0", "c 0000:03:00.0"] },
    },
    {
      name: "as it was laid out before, by the rules of that time",
      vmi: aVmiOf(
        {},
        {
          [names.PCIE_TOPOLOGY_ANNOTATION]: printPcieTopology({
            version: 1,
            interfaces: [{ name: "a", pciAddress: "0000:05:00.0" }],
          }),
        },
      ),
      want: { ports: 34, places: ["a 0000:05:00.0", "c 0000:01:00.0"] },
    },
    {
      name: "by the newest rules, with nothing moved, when it was laid out by rules that are not known",
      vmi: aVmiOf(
        {},
        {
          [names.PCIE_TOPOLOGY_ANNOTATION]: `{"version":99,"interfaces":[{"name":"a","pciAddress":"0000:05:00.0"}]}`,
        },
      ),
      want: { ports: 35, places: ["a 0000:05:00.0", "c 0000:02:00.0"] },
    },
    {
      name: "without ports on the root complex",
      vmi: aVmiOf({}, { [names.ROOT_COMPLEX_ANNOTATION]: "true" }),
      want: { ports: 0, places: ["a 0000:00:03.0", "c 0000:00:04.0"] },
    },
  ])("$name", ({ vmi, want }) => {
    expect(layoutOf(vmi)).toEqual(want);
  });

  test("with the reserve alone where it declares no devices", () => {
    const vmi = aVmi();
    const spec = { ...vmi.spec, domain: {} };
    expect(layoutOf({ ...vmi, spec })).toEqual({ ports: 33, places: [] });
  });

  test("or not, and the field is named", () => {
    const vmi = aVmiOf({
      devices: { interfaces: [{ name: "a", bridge: {}, pciAddress: "0000:02:00.1" }] },
    });
    expect(formatProblems(vmiStartProblems(vmi, CONFIG))).toBe(
      "spec.domain.devices.interfaces[0].pciAddress: 0000:02:00.1: only function 0 of a slot can be used",
    );
  });
});

describe("the fields of a layout's problems", () => {
  const vmi = aVmiOf({
    devices: { interfaces: [{ name: "a" }, { name: "b", pciAddress: "0000:02:00.0" }] },
  });

  test.each([
    { name: "the NIC", nic: "a", want: "template.domain.devices.interfaces[0]" },
    {
      name: "the address that it asks for",
      nic: "b",
      want: "template.domain.devices.interfaces[1].pciAddress",
    },
    { name: "the devices as a whole", nic: undefined, want: "template.domain.devices" },
  ])("are $name", ({ nic, want }) => {
    const problem = { message: "no", ...(nic === undefined ? {} : { nic }) };
    expect(toFieldProblems([problem], { spec: vmi.spec, base: "template" })).toEqual([
      { field: want, message: "no" },
    ]);
  });
});

describe("what an iface is laid out by", () => {
  test.each([
    { name: "is virtio where nothing is said", iface: undefined, want: "virtio" },
    { name: "is virtio where an empty name is given", iface: { model: "" }, want: "virtio" },
    { name: "is what is said", iface: { model: "e1000" }, want: "e1000" },
  ])("its model $name", ({ iface, want }) => {
    expect(findModelName(iface === undefined ? undefined : { name: "a", ...iface })).toBe(want);
  });

  test.each([
    { pciAddress: undefined, want: undefined },
    { pciAddress: "", want: undefined },
    { pciAddress: "0000:05:00.0", want: { bus: 5, slot: 0, function: 0 } },
    { pciAddress: "05:00.0", want: { bus: 5, slot: 0, function: 0 } },
    { pciAddress: "05", want: undefined },
  ])("its address: $pciAddress", ({ pciAddress, want }) => {
    expect(
      readRequestedAddress({ name: "a", ...(pciAddress === undefined ? {} : { pciAddress }) }),
    ).toEqual(want);
  });

  test("uses valid recorded addresses", () => {
    const topology = {
      version: 1,
      interfaces: [
        { name: "a", pciAddress: "0000:05:00.0" },
        { name: "b", pciAddress: "elsewhere" },
      ],
    };
    const annotations = { [names.PCIE_TOPOLOGY_ANNOTATION]: printPcieTopology(topology) };
    expect([...readRecordedNicAddresses(aVmiOf({}, annotations))]).toEqual([
      ["a", { bus: 5, slot: 0, function: 0 }],
    ]);
    expect(readTopologyVersion(aVmiOf({}, annotations))).toBe(1);
  });

  test("uses no record if the VMI has none", () => {
    const vmi = aVmi();
    expect([...readRecordedNicAddresses(vmi)]).toEqual([]);
    expect(readTopologyVersion(vmi)).toBe(TOPOLOGY_VERSION);
  });

  test("uses the q35 layout for unknown machine types, which admission rejects", () => {
    expect(layoutOf(aVmiOf({ machine: { type: "microvm" } }))).toEqual(layoutOf(aVmiOf()));
  });
});

describe("the queues of a NIC", () => {
  test.each([
    { name: "are one pair", devices: {}, cores: 4, model: "virtio", want: 1 },
    {
      name: "are as many as vCPUs",
      devices: { networkInterfaceMultiqueue: true },
      cores: 4,
      model: "virtio",
      want: 4,
    },
    {
      name: "are one pair where that is said to be enough",
      devices: { networkInterfaceMultiqueue: false },
      cores: 4,
      model: "virtio",
      want: 1,
    },
    {
      name: "are one pair of a model that nobody knows",
      devices: { networkInterfaceMultiqueue: true },
      cores: 4,
      model: "odd",
      want: 1,
    },
    {
      name: "are at most 8",
      devices: { networkInterfaceMultiqueue: true },
      cores: 16,
      model: "virtio",
      want: 8,
    },
    {
      name: "are one where the model has no more",
      devices: { networkInterfaceMultiqueue: true },
      cores: 4,
      model: "e1000",
      want: 1,
    },
  ])("$name", ({ devices, cores, model, want }) => {
    const { spec } = aVmiOf({ devices, cpu: { cores } });
    expect(countQueues(spec, { name: "a", model }, CONFIG)).toBe(want);
  });
});

describe("a VM remembers where its devices are", () => {
  const vm = aVm({ nics: [{ name: "a" }, { name: "b" }, { name: "gone", state: "absent" }] });

  test("from what the node reports, for the ifaces that it declares", () => {
    const vmi = aVmi({
      status: {
        interfaces: [
          { name: "a", pciAddress: "0000:01:00.0" },
          { name: "gone", pciAddress: "0000:02:00.0" },
          { name: "foreign", pciAddress: "0000:03:00.0" },
        ],
      },
    });
    expect(statusOf(vm, vmi).pcieTopology).toEqual({
      version: TOPOLOGY_VERSION,
      interfaces: [{ name: "a", pciAddress: "0000:01:00.0" }],
    });
  });

  test.each([
    {
      name: "at its first start the newest",
      told: undefined,
      known: undefined,
      want: TOPOLOGY_VERSION,
    },
    { name: "what its VMI was told", told: 1, known: undefined, want: 1 },
    { name: "what it knew, when its VMI was told nothing", told: undefined, known: 1, want: 1 },
  ])("and by which rules: $name", ({ told: reported, known, want }) => {
    const pciAddress = "0000:01:00.0";
    const topology = { version: reported ?? 0, interfaces: [] };
    const annotations = { [names.PCIE_TOPOLOGY_ANNOTATION]: printPcieTopology(topology) };
    const vmi = aVmi({ status: { interfaces: [{ name: "a", pciAddress }] } });
    const reportedVmi = { ...vmi, metadata: { ...vmi.metadata, annotations } };
    const remembering = {
      ...vm,
      status: { pcieTopology: { version: known ?? 0, interfaces: [] } },
    };
    const status = statusOf(
      known === undefined ? vm : remembering,
      reported === undefined ? vmi : reportedVmi,
    );
    expect(status.pcieTopology?.version).toBe(want);
  });

  test("records the layout version in the VMI at a VM's first start", () => {
    expect(readRecordedTopology(vmiOf(aVm({}), {}))).toEqual({
      version: TOPOLOGY_VERSION,
      interfaces: [],
      devices: [{ name: "display", pciAddress: "0000:00:01.0" }],
    });
  });

  test("while it is stopped, and passes it to the next VMI", () => {
    const pcieTopology = { version: 1, interfaces: [{ name: "b", pciAddress: "0000:09:00.0" }] };
    const stopped = { ...vm, status: { pcieTopology } };
    expect(statusOf(stopped, undefined).pcieTopology).toEqual(pcieTopology);
    expect(layoutOf(vmiOf(stopped, {}))).toEqual({
      ports: 34,
      places: ["b 0000:09:00.0", "a 0000:01:00.0"],
    });
  });
});
