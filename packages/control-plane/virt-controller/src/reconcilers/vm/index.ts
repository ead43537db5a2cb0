// SPDX-License-Identifier: Apache-2.0
// The VM's part of a pass: creates the VMI, and applies changes of the VM to it.
import { VIRTUAL_MACHINES } from "@patchbay/api";
import {
  canDeferVmStatus,
  newSyncError,
  statusPatch,
  buildVmStatus,
  type NewVmStatus,
} from "@patchbay/core/status";
import { type VmFacts, nextReconcileMs, planVm } from "@patchbay/core/vm";
import { keyOf, after, done, earliest, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { type PerformedSteps, rethrow } from "../steps.ts";
import { actVm } from "./act.ts";
import { observeVm } from "./observe.ts";

/** How much longer the status write can wait, milliseconds; 0 if it cannot. */
function findDelayMs({ vm, vmi }: VmFacts, next: NewVmStatus, deps: Deps): number {
  const { uid = "" } = vm.metadata;
  // This pass or the watch may have a newer VMI than the facts.
  const current = vmi && deps.mutationCache.newest(deps.vmis.find(keyOf(vmi)) ?? vmi);
  return canDeferVmStatus(vm, current, next) ? deps.deferrals.remainingMs(uid) : 0;
}

/** Writes the status at most once, and records new sync errors. Returns the milliseconds until the next pass if the write was deferred. */
async function reportVm(
  facts: VmFacts,
  { failures }: PerformedSteps,
  deps: Deps,
): Promise<number | undefined> {
  const { vm, now } = facts;
  if (vm.metadata.deletionTimestamp !== undefined && vm.metadata.finalizers === undefined) {
    return undefined;
  }
  const next = buildVmStatus({ ...facts, failures }, now);
  const operations = statusPatch(deps.mutationCache.newest(vm), next);
  const remainingMs = operations.length === 0 ? 0 : findDelayMs(facts, next, deps);
  if (remainingMs > 0) return remainingMs;
  deps.deferrals.end(vm.metadata.uid ?? "");
  if (operations.length === 0) return undefined;
  const patch = { type: "json", operations } as const;
  deps.mutationCache.note(
    await deps.store.patch(VIRTUAL_MACHINES, keyOf(vm), patch, { subresource: "status" }),
  );
  const syncError = newSyncError(vm.status?.conditions, next.conditions);
  if (syncError !== undefined) deps.events.record(vm, { type: "Warning", ...syncError });
  return undefined;
}

export async function reconcileVm(key: string, deps: Deps): Promise<Next> {
  const facts = await observeVm(key, deps);
  if (facts === undefined) return done();
  const performed = await actVm(planVm(facts), facts, deps);
  const reportMs = await reportVm(facts, performed, deps);
  rethrow(performed);
  // Nothing wakes the VM when its DataVolumes exist.
  const areVolumesCreated = facts.missingDataVolumes.length > 0 && performed.failures.length === 0;
  const nextMs = earliest([
    performed.retryInMs,
    reportMs,
    areVolumesCreated ? 0 : nextReconcileMs(facts),
  ]);
  return nextMs === undefined ? done() : after(nextMs);
}
