// SPDX-License-Identifier: Apache-2.0
// Finds the VM and VMI of a request.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type KubeObject,
  type ResourceType,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isOwnedBy, findOwnerVm } from "@patchbay/core/vm";
import type { NicTarget } from "@patchbay/core/requests";
import type { Reader } from "@patchbay/kube";
import type { ObjectKey } from "@patchbay/core/interfaces";
import type { About } from "../http/answers.ts";

export function resourceTypeOf(kind: NicTarget["kind"]): ResourceType<KubeObject> {
  return kind === "vm" ? VIRTUAL_MACHINES : VIRTUAL_MACHINE_INSTANCES;
}

export function aboutTarget(kind: NicTarget["kind"], { name }: Pick<ObjectKey, "name">): About {
  return { type: resourceTypeOf(kind), name };
}

export async function findVmWithVmi(
  reader: Reader,
  key: ObjectKey,
): Promise<{ vm: VirtualMachine; vmi?: VirtualMachineInstance } | undefined> {
  const [vm, vmi] = await Promise.all([
    reader.find(VIRTUAL_MACHINES, key),
    reader.find(VIRTUAL_MACHINE_INSTANCES, key),
  ]);
  if (vm === undefined) return undefined;
  return vmi !== undefined && isOwnedBy(vmi, vm) ? { vm, vmi } : { vm };
}

/** Returns undefined if there is no VM, or if a VM with the same name is not the owner. */
export async function findOwner(
  reader: Reader,
  vmi: VirtualMachineInstance,
): Promise<VirtualMachine | undefined> {
  const owner = findOwnerVm(vmi);
  if (owner === undefined) return undefined;
  const namespace = vmi.metadata.namespace ?? "";
  const vm = await reader.find(VIRTUAL_MACHINES, { namespace, name: owner.name });
  return vm?.metadata.uid === owner.uid ? vm : undefined;
}

export async function observeTarget(
  reader: Reader,
  kind: NicTarget["kind"],
  key: ObjectKey,
): Promise<NicTarget | undefined> {
  if (kind === "vm") {
    const observed = await findVmWithVmi(reader, key);
    return observed === undefined ? undefined : { kind: "vm", ...observed };
  }
  const vmi = await reader.find(VIRTUAL_MACHINE_INSTANCES, key);
  return vmi === undefined ? undefined : { kind: "vmi", vmi };
}
