// SPDX-License-Identifier: Apache-2.0
// The VM's part of a pass: a VM becomes a VMI, and its edits go into the VMI.
import { VIRTUAL_MACHINES } from "@patchbay/api";
import {
  canVmStatusWait,
  newSyncError,
  statusPatch,
  vmStatus,
  type NewVmStatus,
  type VmFacts,
  nextLookMs,
  planVm,
} from "@patchbay/core";
import { keyOf, after, done, earliest, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { type PerformedSteps, rethrow } from "../steps.ts";
import { actVm } from "./act.ts";
import { observeVm } from "./observe.ts";

/** How much longer the write can wait, milliseconds; 0: not at all. */
function waitMs({ vm, vmi }: VmFacts, next: NewVmStatus, deps: Deps): number {
  const { uid = "" } = vm.metadata;
  // This pass may have written it since it looked, and the watch may have told of that already.
  const current = vmi && deps.ownWrites.newest(deps.vmis.find(keyOf(vmi)) ?? vmi);
  return canVmStatusWait(vm, current, next) ? deps.deferrals.leftMs(uid) : 0;
}

/**
 * One write at most, and an event for a sync error that is new. A VM that goes and that nobody keeps has no reader. Returns
 * after how many milliseconds to look again, where the write was put off.
 */
async function reportVm(
  facts: VmFacts,
  { failures }: PerformedSteps,
  deps: Deps,
): Promise<number | undefined> {
  const { vm, now } = facts;
  if (vm.metadata.deletionTimestamp !== undefined && vm.metadata.finalizers === undefined) {
    return undefined;
  }
  const next = vmStatus({ ...facts, failures }, now);
  const operations = statusPatch(deps.ownWrites.newest(vm), next);
  const leftMs = operations.length === 0 ? 0 : waitMs(facts, next, deps);
  if (leftMs > 0) return leftMs;
  deps.deferrals.end(vm.metadata.uid ?? "");
  if (operations.length === 0) return undefined;
  const patch = { type: "json", operations } as const;
  deps.ownWrites.note(
    await deps.store.patch(VIRTUAL_MACHINES, keyOf(vm), patch, { subresource: "status" }),
  );
  const syncError = newSyncError(vm.status?.conditions, next.conditions);
  if (syncError !== undefined) deps.events.record(vm, { type: "Warning", ...syncError });
  return undefined;
}

/** One pass over one VM. Safe to repeat. */
export async function reconcileVm(key: string, deps: Deps): Promise<Next> {
  const facts = await observeVm(key, deps);
  if (facts === undefined) return done();
  const outcome = await actVm(planVm(facts), facts, deps);
  const reportMs = await reportVm(facts, outcome, deps);
  rethrow(outcome);
  // Nothing wakes the VM when its DataVolumes are there.
  const isMade = facts.missingDataVolumes.length > 0 && outcome.failures.length === 0;
  const lookMs = earliest([outcome.againMs, reportMs, isMade ? 0 : nextLookMs(facts)]);
  return lookMs === undefined ? done() : after(lookMs);
}
