// SPDX-License-Identifier: Apache-2.0
// The VM's copy of its VMI's NIC history. It outlives the VMI.
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

/** Merges both histories. Operations that were active when the guest ended are ended, at `now` if it is given. */
export function mergeVmHistory(owner: HistorySources, now?: string): IfaceHistory {
  const { vm, vmi } = owner;
  const history = mergeHistory(
    vm?.status?.interfaceHistory ?? [],
    vmi?.status?.interfaceHistory ?? [],
  );
  return isOver(owner) ? endHistory(history, now) : history;
}

/**
 * The VM's copy for its next status. `others` are the status's other fields: while the guest exists, a change of the
 * history alone is not written, because the VMI has it.
 */
export function nextVmHistory(
  owner: HistorySources & { readonly vm: VirtualMachine },
  others: object,
  now: string,
): IfaceHistory | undefined {
  const stored = new Map<string, unknown>(Object.entries(owner.vm.status ?? {}));
  const isNews = Object.entries(others).some(
    ([field, value]) => !isEqual(stored.get(field), value),
  );
  if (!isNews && !isOver(owner)) return owner.vm.status?.interfaceHistory;
  const history = mergeVmHistory(owner, now);
  return history.length === 0 ? undefined : history;
}
