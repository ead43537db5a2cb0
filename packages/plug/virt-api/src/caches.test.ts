// SPDX-License-Identifier: Apache-2.0
// Who has a MAC, and whose launcher a pod is, as the caches find it.
import type { VirtualMachine, VirtualMachineInstance } from "@patchbay/api";
import { createFakeCache } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import { launcherPodName } from "@patchbay/core";
import { findByLauncher, INDEXES, listMacOwners } from "./caches.ts";
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

test("a launcher pod leads to its VMI, and no other pod does", () => {
  const vmi = vmiWith("vm", {});
  const { vmis } = cachesOf([], [vmi, vmiWith("lone", {})]);
  const find = (namespace: string, name: string) => findByLauncher(vmis, { namespace, name });
  const name = launcherPodName(vmi);
  expect(find("ns", name)?.metadata.name).toBe("vm");
  expect(find("other", name)).toBeUndefined();
  expect(find("ns", "vm")).toBeUndefined();
});
