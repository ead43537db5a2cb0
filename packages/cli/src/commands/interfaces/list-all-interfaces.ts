// SPDX-License-Identifier: Apache-2.0
// Lists the interfaces of all VMs of a namespace, and of VMIs without a VM.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { toIfaceRows } from "../../print/iface-rows.ts";
import type { VmInterfaces } from "../../print/interfaces.ts";
import type { Session } from "../../session.ts";

export function joinByName(
  vms: readonly VirtualMachine[],
  vmis: readonly VirtualMachineInstance[],
): readonly VmInterfaces[] {
  const names = new Set([...vms, ...vmis].map(({ metadata }) => metadata.name));
  return [...names].sort().map((name) => {
    const vm = vms.find(({ metadata }) => metadata.name === name);
    const vmi = vmis.find(({ metadata }) => metadata.name === name);
    const rows = toIfaceRows({
      ...(vm !== undefined && { vm }),
      ...(vmi !== undefined && { vmi }),
    });
    return { vm: name, vmi, rows };
  });
}

export async function listAllInterfaces(
  { client, namespace }: Session,
  signal: AbortSignal,
): Promise<readonly VmInterfaces[]> {
  const selection = { namespace, signal };
  const [vms, vmis] = await Promise.all([
    client.store.list(VIRTUAL_MACHINES, selection),
    client.store.list(VIRTUAL_MACHINE_INSTANCES, selection),
  ]);
  return joinByName(vms.items, vmis.items);
}
