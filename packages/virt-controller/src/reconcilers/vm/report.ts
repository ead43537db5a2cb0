// SPDX-License-Identifier: Apache-2.0
// Writes the VM's status when it says something new.
import { VIRTUAL_MACHINES } from "@patchbay/api";
import { isEqual, vmStatus, type VmFacts } from "@patchbay/core";
import { keyOf, printTime } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";

/** One write at most. */
export async function reportVm({ vm, vmi }: VmFacts, deps: Deps): Promise<void> {
  if (vm.metadata.deletionTimestamp !== undefined && vm.metadata.finalizers === undefined) return;
  const status = vmStatus(vm, vmi, printTime(deps.clock.now()));
  if (isEqual({ ...vm.status, ...status }, vm.status)) return;
  const patch = { type: "merge", fields: { status } } as const;
  deps.ownWrites.note(
    await deps.store.patch(VIRTUAL_MACHINES, keyOf(vm), patch, { subresource: "status" }),
  );
}
