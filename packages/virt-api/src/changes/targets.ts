// SPDX-License-Identifier: Apache-2.0
// Whose specification does a request change? The VM's, wherever there is one.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isOwnedBy, type NicTarget } from "@patchbay/core";
import type { ObjectKey, Store } from "@patchbay/ports";

/** Reads a VM and its VMI; undefined when there is no VM. */
export async function observeVm(
  store: Store,
  key: ObjectKey,
): Promise<{ vm: VirtualMachine; vmi?: VirtualMachineInstance } | undefined> {
  const [vm, vmi] = await Promise.all([
    store.find(VIRTUAL_MACHINES, key),
    store.find(VIRTUAL_MACHINE_INSTANCES, key),
  ]);
  if (vm === undefined) return undefined;
  return vmi !== undefined && isOwnedBy(vmi, vm) ? { vm, vmi } : { vm };
}

/** The VM that owns a VMI, or undefined. */
export async function findOwner(
  store: Store,
  vmi: VirtualMachineInstance,
): Promise<VirtualMachine | undefined> {
  const owner = vmi.metadata.ownerReferences?.find(
    ({ controller, kind }) => controller === true && kind === VIRTUAL_MACHINES.kind,
  );
  if (owner === undefined) return undefined;
  const namespace = vmi.metadata.namespace ?? "";
  const vm = await store.find(VIRTUAL_MACHINES, { namespace, name: owner.name });
  return vm?.metadata.uid === owner.uid ? vm : undefined;
}

/** What a request on a VM or VMI of that name is about; undefined when there is none. */
export async function observeTarget(
  store: Store,
  kind: NicTarget["kind"],
  key: ObjectKey,
): Promise<NicTarget | undefined> {
  if (kind === "vm") {
    const observed = await observeVm(store, key);
    return observed === undefined ? undefined : { kind: "vm", ...observed };
  }
  const vmi = await store.find(VIRTUAL_MACHINE_INSTANCES, key);
  return vmi === undefined ? undefined : { kind: "vmi", vmi };
}
