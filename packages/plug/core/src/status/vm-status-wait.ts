// SPDX-License-Identifier: Apache-2.0
// Can a VM's status wait, since there will be more to tell in a moment? While NICs go in and out of the guest it can.
import {
  isAbsent,
  type PcieTopology,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isEqual } from "../equal.ts";
import { isOver } from "../plan/request/target.ts";
import { findByName, ifacesOf } from "../spec/nics.ts";
import type { NewVmStatus } from "./vm.ts";

/** Fields that may say something new and wait nevertheless; the second, only if it tells of no new place. */
const MAY_WAIT: readonly string[] = ["observedGeneration", "pcieTopology", "interfaceHistory"];

function isOnItsWay(vmi: VirtualMachineInstance, name: string): boolean {
  return findByName(vmi.status?.interfaces, name)?.hotplug?.phase !== "Ready";
}

/** Whether NICs of the running guest are being plugged or unplugged, to the end: no entry of theirs is left. */
function isChanging(vm: VirtualMachine, vmi: VirtualMachineInstance): boolean {
  if (vmi.status?.phase !== "Running" || isOver(vmi)) return false;
  return (
    ifacesOf(vm.spec.template.spec).some(isAbsent) ||
    ifacesOf(vmi.spec).some((iface) => isAbsent(iface) || isOnItsWay(vmi, iface.name))
  );
}

/** What has a place must be remembered at once; that something has none any more, need not. */
function tellsNoNewPlace(
  before: PcieTopology | undefined,
  next: PcieTopology | undefined,
): boolean {
  if (before === undefined || next === undefined) return before === next;
  const { interfaces: known, ...others } = before;
  const { interfaces: told, ...otherNext } = next;
  return (
    isEqual(others, otherNext) && told.every((place) => known.some((each) => isEqual(each, place)))
  );
}

/**
 * Whether all that `next` says anew is that the VM was looked at, or that NICs have lost their places, while the guest's
 * NICs are being changed: the outcome of that is told soon, and this with it.
 */
export function canVmStatusWait(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  next: NewVmStatus,
): boolean {
  if (vmi === undefined || vm.status === undefined || !isChanging(vm, vmi)) return false;
  const stored = new Map<string, unknown>(Object.entries(vm.status));
  const isSame = Object.entries(next).every(
    ([field, value]) => MAY_WAIT.includes(field) || isEqual(stored.get(field), value),
  );
  return isSame && tellsNoNewPlace(vm.status.pcieTopology, next.pcieTopology);
}
