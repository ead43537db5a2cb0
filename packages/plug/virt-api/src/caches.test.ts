// SPDX-License-Identifier: Apache-2.0
// Who has a MAC, and whose launcher a pod is, as the caches find it.
import type {
  NetworkAttachmentDefinition,
  VirtualMachine,
  VirtualMachineInstance,
} from "@patchbay/api";
import { createFakeCache } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import { launcherPodName } from "@patchbay/core";
import { findByLauncher, findSegment, INDEXES, listMacOwners, seenNetwork } from "./caches.ts";
import { MAC, vmiWith, vmWith } from "./testing/admission.ts";

function cachesOf(vms: readonly VirtualMachine[], vmis: readonly VirtualMachineInstance[]) {
  const caches = {
    vms: createFakeCache<VirtualMachine>(INDEXES.vms),
    vmis: createFakeCache<VirtualMachineInstance>(INDEXES.vmis),
  };
  for (const vm of vms) caches.vms.put(vm);
  for (const vmi of vmis) caches.vmis.put(vmi);
  return caches;
}

const UPPER = { bridge: {}, macAddress: MAC.toUpperCase() };

test.each([
  { name: "a VM, however it is written", vms: [vmWith(UPPER)], vmis: [], want: ["ns/vm"] },
  { name: "a VMI without a VM", vms: [], vmis: [vmiWith("lone", UPPER)], want: ["ns/lone"] },
  {
    name: "the VM and not its VMI",
    vms: [vmWith(UPPER)],
    vmis: [vmiWith("vm", UPPER)],
    want: ["ns/vm"],
  },
  {
    name: "nobody, where there is no MAC",
    vms: [vmWith({}), vmWith(undefined)],
    vmis: [],
    want: [],
  },
  {
    name: "nobody of another MAC",
    vms: [vmWith({ macAddress: "02:00:00:00:00:0b" })],
    vmis: [],
    want: [],
  },
])("a MAC is had by $name", ({ vms, vmis, want }) => {
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

test("two definitions of one bridge are one segment, and any other is its own", () => {
  const nads = createFakeCache<NetworkAttachmentDefinition>();
  const put = (name: string, config: object): void => {
    const spec = { config: JSON.stringify(config) };
    const metadata = { namespace: "ns", name };
    const kind = "NetworkAttachmentDefinition";
    nads.put(seenNetwork({ apiVersion: "k8s.cni.cncf.io/v1", kind, metadata, spec }));
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

test("a launcher pod leads to its VMI, and no other pod does", () => {
  const vmi = vmiWith("vm", {});
  const { vmis } = cachesOf([], [vmi, vmiWith("lone", {})]);
  const find = (namespace: string, name: string) => findByLauncher(vmis, { namespace, name });
  const name = launcherPodName(vmi);
  expect(find("ns", name)?.metadata.name).toBe("vm");
  expect(find("other", name)).toBeUndefined();
  expect(find("ns", "vm")).toBeUndefined();
});
