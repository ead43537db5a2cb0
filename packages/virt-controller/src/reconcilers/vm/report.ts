// SPDX-License-Identifier: Apache-2.0
// Writes the VM's status when it says something new.
import { VIRTUAL_MACHINES } from "@patchbay/api";
import { newObstacle, statusPatch, vmStatus, type VmFacts } from "@patchbay/core";
import { keyOf } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { Outcome } from "../steps.ts";

/** One write at most, and an event for an obstacle that is new. A VM that goes and that nobody keeps has no reader. */
export async function reportVm(facts: VmFacts, { failures }: Outcome, deps: Deps): Promise<void> {
  const { vm, now } = facts;
  if (vm.metadata.deletionTimestamp !== undefined && vm.metadata.finalizers === undefined) return;
  const next = vmStatus({ ...facts, failures }, now);
  const operations = statusPatch(vm, next);
  if (operations.length === 0) return;
  const patch = { type: "json", operations } as const;
  deps.ownWrites.note(
    await deps.store.patch(VIRTUAL_MACHINES, keyOf(vm), patch, { subresource: "status" }),
  );
  const obstacle = newObstacle(vm.status?.conditions, next.conditions);
  if (obstacle !== undefined) deps.events.record(vm, { type: "Warning", ...obstacle });
}
