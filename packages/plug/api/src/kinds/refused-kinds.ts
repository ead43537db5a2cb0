// SPDX-License-Identifier: Apache-2.0
// Kinds of KubeVirt that Patchbay does not run, with what to do instead. They are served so that who asks for one is told.

const REFUSALS: Readonly<Record<string, string>> = {
  VirtualMachineInstanceReplicaSet:
    "Patchbay does not run VirtualMachineInstanceReplicaSets: nothing would make their guests. Write a VirtualMachine for each guest instead; with an instancetype and a preference each is a few lines",
  VirtualMachinePool:
    "Patchbay does not run VirtualMachinePools: nothing would make their VMs. Write a VirtualMachine for each of them instead; with an instancetype and a preference each is a few lines",
  VirtualMachineExport:
    "Patchbay does not have exports of VMs: nothing would offer the disks for download. Stop the VM, mount its claim into a pod and copy the disk from there (kubectl cp)",
};

/** Why nobody can make an object of that kind; undefined for one that is not refused. */
export function refusalOf(kind: string): string | undefined {
  return Object.hasOwn(REFUSALS, kind) ? REFUSALS[kind] : undefined;
}
