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
import { formatProblems, findVmiStartProblems } from "../../vm/start-problems.ts";
import { readRecordedNicAddresses, readRecordedTopology, readTopologyVersion } from "./devices.ts";
import {
  listDeviceAddresses,
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

describe("the layout of a VMI is created", () => {
  test.each([
    {
      name: "with the cluster's reserve beside its NICs, without absent NICs",
      vmi: aVmiOf(),
      want: { ports: 35, places: ["a 0000:02:00.0", "c 0000:03:00.0"] },
    },
    {
      name: "with its own reserve",
      vmi: aVmiOf({ devices: { pcieRootPorts: 1 } }),
      want: { ports: 4, places: ["a 0000:02:00.0", "c 0000:03:00.0"] },
    },
    {
      name: "with the recorded addresses and the recorded layout version",
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
      name: "with the newest version and the recorded addresses if the recorded version is unknown",
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

  test.each([
    {
      name: "behind each other in KubeVirt's, with its number of ports",
      vmi: aVmiOf({}, { [names.PCI_TOPOLOGY_VERSION_ANNOTATION]: "v3" }),
      want: { ports: 8, places: ["a 0000:01:00.0", "c 0000:02:00.0"] },
    },
    {
      name: "before the slots of KubeVirt's annotation",
      vmi: aVmiOf({}, { [names.PCI_SLOT_COUNT_ANNOTATION]: "10" }),
      want: { ports: 13, places: ["a 0000:01:00.0", "c 0000:02:00.0"] },
    },
    {
      name: "in KubeVirt's, with the VM's own reserve",
      vmi: aVmiOf(
        { devices: { pcieRootPorts: 20 } },
        { [names.PCI_TOPOLOGY_VERSION_ANNOTATION]: "v3" },
      ),
      want: { ports: 23, places: ["a 0000:01:00.0", "c 0000:02:00.0"] },
    },
    {
      name: "as without the annotation if its value is invalid",
      vmi: aVmiOf({}, { [names.PCI_TOPOLOGY_VERSION_ANNOTATION]: "v9" }),
      want: { ports: 35, places: ["a 0000:02:00.0", "c 0000:03:00.0"] },
    },
    {
      name: "as at its first start, if that was in Patchbay's own",
      vmi: aVmiOf(
        {},
        {
          [names.PCI_TOPOLOGY_VERSION_ANNOTATION]: "v3",
          [names.PCIE_TOPOLOGY_ANNOTATION]: printPcieTopology({
            version: 3,
            interfaces: [{ name: "a", pciAddress: "0000:02:00.0" }],
            devices: [],
          }),
        },
      ),
      want: { ports: 35, places: ["a 0000:02:00.0", "c 0000:03:00.0"] },
    },
  ])("$name", ({ vmi, want }) => {
    expect(layoutOf(vmi)).toEqual(want);
  });

  test("in KubeVirt's at every start, also after a disk and a NIC were added", () => {
    const annotation = { [names.PCI_TOPOLOGY_VERSION_ANNOTATION]: "v3" };
    const withDisks = (...disks: readonly string[]): Partial<Domain> => ({
      devices: { disks: disks.map((name) => ({ name, disk: { bus: "virtio" } })) },
    });
    const addDisks = (vmi: VirtualMachineInstance, ...disks: readonly string[]) => ({
      ...vmi,
      spec: {
        ...vmi.spec,
        volumes: disks.map((name) => ({ name, emptyDisk: { capacity: "1Gi" } })),
      },
    });
    const first = addDisks(aVmiOf(withDisks("root"), annotation), "root");
    const devices = listDeviceAddresses(first);
    expect(devices).toEqual([
      { name: "guestAgent", pciAddress: "0000:06:00.0" },
      { name: "display", pciAddress: "0000:00:01.0" },
      { name: "disk:root", pciAddress: "0000:07:00.0" },
    ]);
    const recorded = printPcieTopology({
      version: TOPOLOGY_VERSION,
      interfaces: [{ name: "c", pciAddress: "0000:02:00.0" }],
      devices: [...devices],
    });
    const annotations = { ...annotation, [names.PCIE_TOPOLOGY_ANNOTATION]: recorded };
    const next = addDisks(aVmiOf(withDisks("more", "root"), annotations), "more", "root");
    expect(listDeviceAddresses(next)).toEqual([
      { name: "guestAgent", pciAddress: "0000:06:00.0" },
      { name: "display", pciAddress: "0000:00:01.0" },
      { name: "disk:more", pciAddress: "0000:01:00.0" },
      { name: "disk:root", pciAddress: "0000:07:00.0" },
    ]);
    expect(layoutOf(next)).toMatchObject({ places: ["c 0000:02:00.0", "a 0000:03:00.0"] });
  });

  test("with the reserve only if it declares no devices", () => {
    const vmi = aVmi();
    const spec = { ...vmi.spec, domain: {} };
    expect(layoutOf({ ...vmi, spec })).toEqual({ ports: 33, places: [] });
  });

  test("or rejected with the field's path", () => {
    const vmi = aVmiOf({
      devices: { interfaces: [{ name: "a", bridge: {}, pciAddress: "0000:02:00.1" }] },
    });
    expect(formatProblems(findVmiStartProblems(vmi, CONFIG))).toBe(
      "spec.domain.devices.interfaces[0].pciAddress: 0000:02:00.1: only function 0 of a slot can be used",
    );
  });
});

describe("the fields of layout problems", () => {
  const vmi = aVmiOf({
    devices: { interfaces: [{ name: "a" }, { name: "b", pciAddress: "0000:02:00.0" }] },
  });

  test.each([
    { name: "the NIC's", nic: "a", want: "template.domain.devices.interfaces[0]" },
    {
      name: "the requested address's",
      nic: "b",
      want: "template.domain.devices.interfaces[1].pciAddress",
    },
    { name: "those of all devices", nic: undefined, want: "template.domain.devices" },
  ])("are $name", ({ nic, want }) => {
    const problem = { message: "no", ...(nic === undefined ? {} : { nic }) };
    expect(toFieldProblems([problem], { spec: vmi.spec, base: "template" })).toEqual([
      { field: want, message: "no" },
    ]);
  });
});

describe("the layout inputs of an iface", () => {
  test.each([
    { name: "is virtio if it is unset", iface: undefined, want: "virtio" },
    { name: "is virtio if it is empty", iface: { model: "" }, want: "virtio" },
    { name: "is the requested model", iface: { model: "e1000" }, want: "e1000" },
  ])("the model $name", ({ iface, want }) => {
    expect(findModelName(iface === undefined ? undefined : { name: "a", ...iface })).toBe(want);
  });

  test.each([
    { pciAddress: undefined, want: undefined },
    { pciAddress: "", want: undefined },
    { pciAddress: "0000:05:00.0", want: { bus: 5, slot: 0, function: 0 } },
    { pciAddress: "05:00.0", want: { bus: 5, slot: 0, function: 0 } },
    { pciAddress: "05", want: undefined },
  ])("the requested address $pciAddress", ({ pciAddress, want }) => {
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
    { name: "are one pair by default", devices: {}, cores: 4, model: "virtio", want: 1 },
    {
      name: "are as many as vCPUs with multiqueue",
      devices: { networkInterfaceMultiqueue: true },
      cores: 4,
      model: "virtio",
      want: 4,
    },
    {
      name: "are one pair with multiqueue disabled",
      devices: { networkInterfaceMultiqueue: false },
      cores: 4,
      model: "virtio",
      want: 1,
    },
    {
      name: "are one pair for an unknown model",
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
      name: "are one pair if the model has no more",
      devices: { networkInterfaceMultiqueue: true },
      cores: 4,
      model: "e1000",
      want: 1,
    },
    {
      name: "are the interface's, without multiqueue",
      devices: {},
      cores: 4,
      model: "",
      queues: 2,
      want: 2,
    },
    {
      name: "are the interface's, below those of multiqueue",
      devices: { networkInterfaceMultiqueue: true },
      cores: 4,
      model: "virtio",
      queues: 3,
      want: 3,
    },
    {
      name: "are at most one pair for each vCPU",
      devices: {},
      cores: 2,
      model: "virtio",
      queues: 6,
      want: 2,
    },
    {
      name: "are at most the cluster's maximum",
      devices: { maxNetworkInterfaceQueues: 12 },
      cores: 16,
      model: "virtio",
      queues: 12,
      want: 8,
    },
    {
      name: "are at most the VM's maximum",
      devices: { networkInterfaceMultiqueue: true, maxNetworkInterfaceQueues: 3 },
      cores: 4,
      model: "virtio",
      want: 3,
    },
    {
      name: "are at most the VM's maximum, although the interface requests more",
      devices: { maxNetworkInterfaceQueues: 2 },
      cores: 4,
      model: "virtio",
      queues: 4,
      want: 2,
    },
    {
      name: "are one pair for a stored interface with another model",
      devices: {},
      cores: 4,
      model: "e1000",
      queues: 4,
      want: 1,
    },
  ])("$name", ({ devices, cores, model, queues, want }) => {
    const { spec } = aVmiOf({ devices, cpu: { cores } });
    const iface = { name: "a", model, ...(queues === undefined ? {} : { queues }) };
    expect(countQueues(spec, iface, CONFIG)).toBe(want);
  });
});

describe("a VM records its device addresses", () => {
  const vm = aVm({ nics: [{ name: "a" }, { name: "b" }, { name: "gone", state: "absent" }] });

  test("from the node's report, for its declared ifaces", () => {
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
      name: "the newest at the first start",
      told: undefined,
      known: undefined,
      want: TOPOLOGY_VERSION,
    },
    { name: "the VMI's version", told: 1, known: undefined, want: 1 },
    { name: "the VM's recorded version if the VMI has none", told: undefined, known: 1, want: 1 },
  ])("with the layout version: $name", ({ told: reported, known, want }) => {
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

  test("with the newest layout version in the VMI at its first start", () => {
    expect(readRecordedTopology(vmiOf(aVm({}), {}))).toEqual({
      version: TOPOLOGY_VERSION,
      interfaces: [],
      devices: [{ name: "display", pciAddress: "0000:00:01.0" }],
    });
  });

  test("while it is stopped, and passes them to the next VMI", () => {
    const pcieTopology = { version: 1, interfaces: [{ name: "b", pciAddress: "0000:09:00.0" }] };
    const stopped = { ...vm, status: { pcieTopology } };
    expect(statusOf(stopped, undefined).pcieTopology).toEqual(pcieTopology);
    expect(layoutOf(vmiOf(stopped, {}))).toEqual({
      ports: 34,
      places: ["b 0000:09:00.0", "a 0000:01:00.0"],
    });
  });
});
