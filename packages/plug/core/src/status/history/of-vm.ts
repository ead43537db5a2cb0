// SPDX-License-Identifier: Apache-2.0
// What a VM keeps of the operations on its NICs, so that it is there when its VMI is gone.
import {
  isVmiFinal,
  type IfaceHistory,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isEqual } from "../../equal.ts";
import { endedHistory, mergedHistory } from "./record.ts";

/** A VM, its VMI, or both. */
export interface HistoryOwner {
  readonly vm?: VirtualMachine | undefined;
  readonly vmi?: VirtualMachineInstance | undefined;
}

function isOver({ vmi }: HistoryOwner): boolean {
  return vmi === undefined || isVmiFinal(vmi);
}

/** What both know; what went on when the guest ended has ended with it, at `now` where that is said. */
export function historyOfVm(owner: HistoryOwner, now?: string): IfaceHistory {
  const { vm, vmi } = owner;
  const history = mergedHistory(
    vm?.status?.interfaceHistory ?? [],
    vmi?.status?.interfaceHistory ?? [],
  );
  return isOver(owner) ? endedHistory(history, now) : history;
}

/**
 * The VM's copy, beside the other fields of its next status: while the guest is there, nothing is written for the sake of
 * the copy alone, since the VMI has it.
 */
export function keptHistory(
  owner: HistoryOwner & { readonly vm: VirtualMachine },
  others: object,
  now: string,
): IfaceHistory | undefined {
  const stored = new Map<string, unknown>(Object.entries(owner.vm.status ?? {}));
  const isNews = Object.entries(others).some(
    ([field, value]) => !isEqual(stored.get(field), value),
  );
  if (!isNews && !isOver(owner)) return owner.vm.status?.interfaceHistory;
  const history = historyOfVm(owner, now);
  return history.length === 0 ? undefined : history;
}
