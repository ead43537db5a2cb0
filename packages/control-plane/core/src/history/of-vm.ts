// SPDX-License-Identifier: Apache-2.0
// The VM's copy of its VMI's NIC history, which outlives the VMI.
import {
  isVmiFinal,
  type IfaceHistory,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isEqual } from "@patchbay/base";
import { endHistory, mergeHistory } from "./record.ts";

export interface HistorySources {
  readonly vm?: VirtualMachine | undefined;
  readonly vmi?: VirtualMachineInstance | undefined;
}

function isOver({ vmi }: HistorySources): boolean {
  return vmi === undefined || isVmiFinal(vmi);
}

/** Merges the histories of VM and VMI. If the guest has ended, ends its active operations; without `now` the time is unknown. */
export function mergeVmHistory(owner: HistorySources, now?: string): IfaceHistory {
  const { vm, vmi } = owner;
  const history = mergeHistory(
    vm?.status?.interfaceHistory ?? [],
    vmi?.status?.interfaceHistory ?? [],
  );
  return isOver(owner) ? endHistory(history, now) : history;
}

/**
 * Returns the history for the VM's next status. `others` are the status's other fields. If none of them changed while the
 * guest exists, the stored history stays, because the VMI has the new one.
 */
export function nextVmHistory(
  owner: HistorySources & { readonly vm: VirtualMachine },
  others: object,
  now: string,
): IfaceHistory | undefined {
  const stored = new Map<string, unknown>(Object.entries(owner.vm.status ?? {}));
  const hasOtherChange = Object.entries(others).some(
    ([field, value]) => !isEqual(stored.get(field), value),
  );
  if (!hasOtherChange && !isOver(owner)) return owner.vm.status?.interfaceHistory;
  const history = mergeVmHistory(owner, now);
  return history.length === 0 ? undefined : history;
}
