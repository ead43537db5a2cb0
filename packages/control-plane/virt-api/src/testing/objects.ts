// SPDX-License-Identifier: Apache-2.0
// VMs and VMIs for tests.
import type { VirtualMachine, VirtualMachineInstance } from "@patchbay/api";

export const KEY = { namespace: "ns", name: "vm" };

export function aVm(spec: Partial<VirtualMachine["spec"]> = {}): VirtualMachine {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { ...KEY, uid: "vm-uid" },
    spec: {
      runStrategy: "Always",
      template: {
        spec: {
          domain: {
            firmware: { kernelBoot: { container: { image: "guest" } } },
            devices: { interfaces: [{ name: "default", bridge: {} }] },
          },
          networks: [{ name: "default", pod: {} }],
        },
      },
      ...spec,
    },
  };
}

/** Builds the VMI of the VM, or a VMI without a VM if the name differs. */
export function aVmi(
  name = "vm",
  phase: "Running" | "Scheduled" = "Running",
): VirtualMachineInstance {
  const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "vm", uid: "vm-uid" };
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: {
      namespace: "ns",
      name,
      uid: "vmi-uid",
      ...(name === "vm" ? { ownerReferences: [{ ...owner, controller: true }] } : {}),
    },
    spec: aVm().spec.template.spec,
    status: { phase },
  };
}
