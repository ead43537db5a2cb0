// SPDX-License-Identifier: Apache-2.0
// Writes the VM's status when it says something new.
import { VIRTUAL_MACHINES } from "@patchbay/api";
import { statusPatch, vmStatus, type VmFacts } from "@patchbay/core";
import { keyOf } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";

/** One write at most. */
export async function reportVm({ vm, vmi, now }: VmFacts, deps: Deps): Promise<void> {
  if (vm.metadata.deletionTimestamp !== undefined && vm.metadata.finalizers === undefined) return;
  const operations = statusPatch(vm, vmStatus(vm, vmi, now));
  if (operations.length === 0) return;
  const patch = { type: "json", operations } as const;
  deps.ownWrites.note(
    await deps.store.patch(VIRTUAL_MACHINES, keyOf(vm), patch, { subresource: "status" }),
  );
}
