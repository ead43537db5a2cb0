// SPDX-License-Identifier: Apache-2.0
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

function hasGuestEnded({ vmi }: HistorySources): boolean {
  return vmi === undefined || isVmiFinal(vmi);
}

/** Merges the histories of VM and VMI. If the guest has ended, ends operations at `now`. */
export function mergeVmHistory(owner: HistorySources, now?: string): IfaceHistory {
  const { vm, vmi } = owner;
  const history = mergeHistory(
    vm?.status?.interfaceHistory ?? [],
    vmi?.status?.interfaceHistory ?? [],
  );
  return hasGuestEnded(owner) ? endHistory(history, now) : history;
}

/** Returns the VM's next history. Skips running guests' operations without changes in `otherFields`, to save writes. */
export function buildNextVmHistory(
  owner: HistorySources & { readonly vm: VirtualMachine },
  otherFields: object,
  now: string,
): IfaceHistory | undefined {
  const storedStatus = new Map<string, unknown>(Object.entries(owner.vm.status ?? {}));
  const hasOtherChange = Object.entries(otherFields).some(
    ([field, value]) => !isEqual(storedStatus.get(field), value),
  );
  if (!hasOtherChange && !hasGuestEnded(owner)) return owner.vm.status?.interfaceHistory;
  const history = mergeVmHistory(owner, now);
  return history.length === 0 ? undefined : history;
}
