// SPDX-License-Identifier: Apache-2.0
// Which facts the VM loop looks at.
import {
  networkConfigOf,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isOwnedBy, vmiOf, vmStartProblems, type VmFacts } from "@patchbay/core";
import { parseKey, printTime } from "@patchbay/kube";
import type { ObjectKey } from "@patchbay/ports";
import type { Deps } from "../../deps.ts";

/** The VMI of the VM's name. A cache may be behind: before one that was made counts as gone, the server is asked. */
async function findVmi(
  vm: VirtualMachine,
  key: ObjectKey,
  deps: Deps,
): Promise<VirtualMachineInstance | undefined> {
  const cached = deps.vmis.find(key);
  if (cached !== undefined || vm.status?.created !== true) return cached;
  return deps.store.find(VIRTUAL_MACHINE_INSTANCES, key);
}

/** The facts of a VM; undefined when it is gone, or when the caches are behind this process's own writes. */
export async function observeVm(key: string, deps: Deps): Promise<VmFacts | undefined> {
  const object = parseKey(key);
  const vm = deps.vms.find(object);
  if (vm === undefined || deps.ownWrites.isBehind(vm)) return undefined;
  const vmi = await findVmi(vm, object, deps);
  if (vmi !== undefined && deps.ownWrites.isBehind(vmi)) return undefined;
  const now = printTime(deps.clock.now());
  const network = networkConfigOf(deps.kubevirts.list()[0]);
  const facts = { vm, now, startProblems: vmStartProblems(vm, vmiOf(vm), network) };
  return vmi === undefined || isOwnedBy(vmi, vm)
    ? { ...facts, vmi, isNameTaken: false }
    : { ...facts, vmi: undefined, isNameTaken: true };
}
