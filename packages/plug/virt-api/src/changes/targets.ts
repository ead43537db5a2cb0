// SPDX-License-Identifier: Apache-2.0
// Whose specification does a request change? The VM's, wherever there is one.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type KubeObject,
  type ResourceType,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isOwnedBy, ownerVmOf, type NicTarget } from "@patchbay/core";
import type { Reader } from "@patchbay/kube";
import type { ObjectKey } from "@patchbay/core/ports";
import type { About } from "../http/answers.ts";

/** The kind whose subresource was called, as the API server knows it. */
export function typeOf(kind: NicTarget["kind"]): ResourceType<KubeObject> {
  return kind === "vm" ? VIRTUAL_MACHINES : VIRTUAL_MACHINE_INSTANCES;
}

/** What an answer is about, whether or not it is there. */
export function aboutTarget(kind: NicTarget["kind"], { name }: Pick<ObjectKey, "name">): About {
  return { type: typeOf(kind), name };
}

/** Reads a VM and its VMI; undefined when there is no VM. */
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

/** The VM that owns a VMI; undefined where there is none, or another one of its name. */
export async function findOwner(
  reader: Reader,
  vmi: VirtualMachineInstance,
): Promise<VirtualMachine | undefined> {
  const owner = ownerVmOf(vmi);
  if (owner === undefined) return undefined;
  const namespace = vmi.metadata.namespace ?? "";
  const vm = await reader.find(VIRTUAL_MACHINES, { namespace, name: owner.name });
  return vm?.metadata.uid === owner.uid ? vm : undefined;
}

/** What a request on a VM or VMI of that name is about; undefined when there is none. */
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
