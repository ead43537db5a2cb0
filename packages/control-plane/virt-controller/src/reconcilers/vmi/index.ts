// SPDX-License-Identifier: Apache-2.0
// The VMI's part of a pass: creates the launcher pod, sets its networks, and reports its attachments.
import {
  VIRTUAL_MACHINE_INSTANCES,
  type VmiStatus,
  type JsonPatchOperation,
  names,
} from "@patchbay/api";
import { newAddressChange } from "@patchbay/core/nics";
import {
  newSyncError,
  buildVmiStatus,
  statusPatch,
  type ControllerVmiStatus,
} from "@patchbay/core/status";
import { type VmiFacts, planVmi } from "@patchbay/core/vm";
import { keyOf, printTime, after, done, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { type PerformedSteps, rethrow } from "../steps.ts";
import { actVmi } from "./act.ts";
import { observeVmi } from "./observe.ts";

/** The decision to release an attachment depends on `status.interfaces`, and virt-handler also writes `phase`: the patch tests both. */
function preconditions(current: VmiStatus | undefined): readonly JsonPatchOperation[] {
  return (["phase", "interfaces"] as const)
    .filter((field) => current?.[field] !== undefined)
    .map((field) => ({ op: "test", path: `/status/${field}`, value: current?.[field] }));
}

/** Keeps what was known of the pod, for virt-handler and for people, except for attachments, which are removed. */
function toFields(next: ControllerVmiStatus): object {
  return { ...next, attachments: next.attachments };
}

/** Writes the status at most once. Records events for new sync errors, except virt-handler's, and for changed addresses. */
async function reportVmi(facts: VmiFacts, { failures }: PerformedSteps, deps: Deps): Promise<void> {
  const vmi = deps.mutationCache.newest(facts.vmi);
  const next = buildVmiStatus({ ...facts, failures }, printTime(deps.clock.now()));
  const changes = statusPatch(vmi, toFields(next));
  if (changes.length === 0) return;
  const patch = { type: "json", operations: [...preconditions(vmi.status), ...changes] } as const;
  const options = { subresource: "status" } as const;
  deps.mutationCache.note(
    await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch, options),
  );
  const syncError = newSyncError(vmi.status?.conditions, next.conditions);
  // virt-handler records its own events.
  const isNewError = syncError !== undefined && syncError.reason !== vmi.status?.hindrance?.reason;
  if (isNewError) deps.events.record(vmi, { type: "Warning", ...syncError });
  const change = newAddressChange(vmi.status?.conditions, next.conditions);
  if (change !== undefined) deps.events.record(vmi, { type: "Warning", ...change });
}

export async function reconcileVmi(key: string, deps: Deps): Promise<Next> {
  const facts = await observeVmi(key, deps);
  if (facts === undefined) return done();
  const plan = planVmi(facts);
  const performed = await actVmi(plan, facts, deps);
  const hasFinalizer = facts.vmi.metadata.finalizers?.includes(names.VMI_FINALIZER) === true;
  // Without the finalizer the VMI may be deleted already.
  const isReleased = plan.some(({ kind }) => kind === "removeFinalizer");
  if (hasFinalizer && !isReleased) await reportVmi(facts, performed, deps);
  rethrow(performed);
  return performed.retryInMs === undefined ? done() : after(performed.retryInMs);
}
