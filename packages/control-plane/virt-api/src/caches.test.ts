// SPDX-License-Identifier: Apache-2.0
// Lookups in caches: MACs and launcher pods.
import {
  names,
  type NetworkAttachmentDefinition,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiStatus,
} from "@patchbay/api";
import { createFakeCache } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import {
  launcherPodName,
  respondToEviction,
  listLauncherNames,
  migrationProblem,
} from "@patchbay/core/migration";
import { findIfacesWithoutPort } from "@patchbay/core/nics";
import { findTargetProblem } from "@patchbay/core/requests";
import {
  findByLauncher,
  findSegment,
  INDEXES,
  listMacOwners,
  trimNetwork,
  trimVm,
  trimVmi,
} from "./caches.ts";
import { MAC, vmiWith, vmWith, BLUE, POD, POD_IFACE } from "./testing/admission.ts";
import { aVmi } from "./testing/objects.ts";

function cachesOf(vms: readonly VirtualMachine[], vmis: readonly VirtualMachineInstance[]) {
  const caches = {
    vms: createFakeCache<VirtualMachine>(INDEXES.vms),
    vmis: createFakeCache<VirtualMachineInstance>(INDEXES.vmis),
  };
  for (const vm of vms) caches.vms.put(vm);
  for (const vmi of vmis) caches.vmis.put(vmi);
  return caches;
}

function withAssignedMac(networkName: string): VirtualMachine {
  const macAddresses = [{ name: "nic1", networkName, macAddress: MAC }];
  return trimVm({ ...vmWith({ bridge: {} }), status: { created: true, macAddresses } });
}

const UPPER = { bridge: {}, macAddress: MAC.toUpperCase() };

test.each([
  { name: "a VM by its MAC in any notation", vms: [vmWith(UPPER)], vmis: [], want: ["ns/vm"] },
  { name: "a VMI without a VM", vms: [], vmis: [vmiWith("lone", UPPER)], want: ["ns/lone"] },
  {
    name: "the VM and not its VMI",
    vms: [vmWith(UPPER)],
    vmis: [vmiWith("vm", UPPER)],
    want: ["ns/vm"],
  },
  {
    name: "a VM whose network assigned the MAC",
    vms: [withAssignedMac("ns/blue")],
    vmis: [],
    want: ["ns/vm"],
  },
  {
    name: "no owner whose former network assigned the MAC",
    vms: [withAssignedMac("ns/red")],
    vmis: [],
    want: [],
  },
  {
    name: "no owner without a MAC",
    vms: [vmWith({}), vmWith(undefined)],
    vmis: [],
    want: [],
  },
  {
    name: "no owner of another MAC",
    vms: [vmWith({ macAddress: "02:00:00:00:00:0b" })],
    vmis: [],
    want: [],
  },
])("listMacOwners finds $name", ({ vms, vmis, want }) => {
  const owners = listMacOwners(cachesOf(vms, vmis), [MAC]);
  expect(owners.map(({ namespace, name }) => `${namespace}/${name}`)).toEqual(want);
});

test.each<{
  runStrategy: "Always" | "Manual" | "Halted";
  guest?: "Running" | "Failed";
  want: boolean;
}>([
  { runStrategy: "Always", want: false },
  { runStrategy: "Halted", want: true },
  { runStrategy: "Manual", want: true },
  { runStrategy: "Manual", guest: "Failed", want: true },
  { runStrategy: "Manual", guest: "Running", want: false },
  { runStrategy: "Halted", guest: "Running", want: false },
])("$runStrategy with guest $guest is halted: $want", ({ runStrategy, guest, want }) => {
  const plain = vmWith({ macAddress: MAC });
  const vm = { ...plain, spec: { ...plain.spec, runStrategy } };
  const vmis = guest === undefined ? [] : [{ ...vmiWith("vm", {}), status: { phase: guest } }];
  const [owner] = listMacOwners(cachesOf([vm], vmis), [MAC]);
  expect(owner?.isHalted === true).toBe(want);
});

test("definitions of one bridge share a segment; others have their own", () => {
  const nads = createFakeCache<NetworkAttachmentDefinition>();
  const put = (name: string, config: object): void => {
    const spec = { config: JSON.stringify(config) };
    const metadata = { namespace: "ns", name };
    const kind = "NetworkAttachmentDefinition";
    nads.put(trimNetwork({ apiVersion: "k8s.cni.cncf.io/v1", kind, metadata, spec }));
  };
  put("blue", { type: "bridge", bridge: "br1" });
  put("blue2", { plugins: [{ type: "cnv-bridge", bridge: "br1" }] });
  put("green", { type: "bridge", bridge: "br1", vlan: 5 });
  put("own", { type: "ptp" });
  const segments = ["blue", "blue2", "green", "own", "unknown"].map((name) =>
    findSegment(nads, `ns/${name}`),
  );
  expect(segments).toEqual([
    "bridge br1 0",
    "bridge br1 0",
    "bridge br1 5",
    "ns/own",
    "ns/unknown",
  ]);
  expect(nads.find({ namespace: "ns", name: "own" })?.spec).toBeUndefined();
});

test("findByLauncher finds the VMI of a launcher pod only", () => {
  const vmi = vmiWith("vm", {});
  const { vmis } = cachesOf([], [vmi, vmiWith("lone", {})]);
  const find = (namespace: string, name: string) => findByLauncher(vmis, { namespace, name });
  const name = launcherPodName(vmi);
  expect(find("ns", name)?.metadata.name).toBe("vm");
  expect(find("other", name)).toBeUndefined();
  expect(find("ns", "vm")).toBeUndefined();
});

function vmiOf(status?: VmiStatus): VirtualMachineInstance {
  const late = { name: "late", bridge: {} };
  const spec = {
    domain: { devices: { interfaces: [POD_IFACE, { name: "nic1", bridge: {} }, late] } },
    networks: [POD, BLUE, { name: "late", multus: { networkName: "blue" } }],
  };
  const { apiVersion, kind, metadata } = aVmi("vm");
  return { apiVersion, kind, metadata, spec, ...(status !== undefined && { status }) };
}

const PCI = { name: "nic1", pciAddress: "0000:02:00.0" };

test.each<{ name: string; status?: VmiStatus }>([
  { name: "has no status yet" },
  { name: "does not run yet", status: { phase: "Scheduling" } },
  { name: "has no free port", status: { phase: "Running", pciePorts: { total: 1, free: 0 } } },
  {
    name: "has a device and a port",
    status: { phase: "Running", pciePorts: { total: 2, free: 1 }, interfaces: [PCI] },
  },
  {
    name: "migrated to this node and is being evacuated",
    status: {
      phase: "Running",
      nodeName: "b",
      evacuationNodeName: "b",
      conditions: [{ type: "LiveMigratable", status: "True" }],
      migrationState: { migrationUid: "m1", targetNode: "b", completed: true },
    },
  },
])("a trimmed VMI that $name gives the same result as the complete VMI", ({ status }) => {
  const vmi = vmiOf(status);
  const seen = trimVmi(vmi);
  const judged = (it: VirtualMachineInstance): unknown => [
    findIfacesWithoutPort(it, it.spec, {}),
    findTargetProblem({ kind: "vmi", vmi: it }),
    listLauncherNames(it),
    migrationProblem(it, { namespace: "ns", name: "vm" }),
    respondToEviction(it, listLauncherNames(it)[0] ?? "", "LiveMigrate"),
  ];
  expect(judged(seen)).toEqual(judged(vmi));
  expect({ ...seen, status: undefined }).toEqual({ ...vmi, status: undefined });
});

test("trims fields that virt-api does not read", () => {
  const seen = trimVmi(
    vmiOf({
      phase: "Running",
      activePods: { uid: "node" },
      conditions: [{ type: "Ready", status: "True" }],
      interfaces: [{ ...PCI, mac: "02:00:00:00:00:01", ipAddresses: ["10.0.0.1"] }, { mac: "x" }],
    }),
  );
  expect(seen.status).toEqual({ phase: "Running", interfaces: [PCI, {}] });
});

test("retains only annotations that Patchbay reads", () => {
  const read = { [names.DEFAULT_ROUTE_ANNOTATION]: "nic1", [names.MESH_INJECT]: "true" };
  const annotations = { ...read, "example.org/text": "x".repeat(1000) };
  const vm = vmWith({ bridge: {} });
  const { template } = vm.spec;
  const trimmedVm = trimVm({
    ...vm,
    metadata: { ...vm.metadata, annotations },
    spec: { ...vm.spec, template: { ...template, metadata: { labels: { a: "b" }, annotations } } },
  });
  expect(trimmedVm.metadata).toEqual({ ...vm.metadata, annotations: read });
  expect(trimmedVm.spec.template).toEqual({
    ...template,
    metadata: { labels: { a: "b" }, annotations: read },
  });
  const vmi = vmiWith("vm", {});
  const trimmedVmi = trimVmi({ ...vmi, metadata: { ...vmi.metadata, annotations } });
  expect(trimmedVmi.metadata.annotations).toEqual(read);
  const nad = { apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" };
  const metadata = { namespace: "ns", name: "blue", annotations };
  expect(trimNetwork({ ...nad, metadata }).metadata.annotations).toEqual(read);
});
