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

/** Merges the histories of the VM and its VMI. If the guest has ended, ends active operations at `now`. */
export function mergeVmHistory(owner: HistorySources, now?: string): IfaceHistory {
  const { vm, vmi } = owner;
  const history = mergeHistory(
    vm?.status?.interfaceHistory ?? [],
    vmi?.status?.interfaceHistory ?? [],
  );
  return hasGuestEnded(owner) ? endHistory(history, now) : history;
}

/**
 * Returns the history for the VM's next status. To save writes, adds the VMI's newer operations only if the guest has ended, or if a
 * change in `otherFields` requires a write of the status anyway.
 */
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
