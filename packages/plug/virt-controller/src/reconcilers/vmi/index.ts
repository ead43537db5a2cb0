// SPDX-License-Identifier: Apache-2.0
// The VMI's part of a pass: a VMI becomes a launcher pod, its ifaces the pod's networks, and the pod's networks its attachments.
import {
  VIRTUAL_MACHINE_INSTANCES,
  type VmiStatus,
  type JsonPatchOperation,
  names,
} from "@patchbay/api";
import {
  newAddressChange,
  newSyncError,
  ownVmiStatus,
  statusPatch,
  type OwnVmiStatus,
  type VmiFacts,
  planVmi,
} from "@patchbay/core";
import { keyOf, printTime, after, done, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { type PerformedSteps, rethrow } from "../steps.ts";
import { actVmi } from "./act.ts";
import { observeVmi } from "./observe.ts";

/** `status.interfaces` is part of the decision to let an attachment go, `phase` has a second writer: both are tested. */
function preconditions(current: VmiStatus | undefined): readonly JsonPatchOperation[] {
  return (["phase", "interfaces"] as const)
    .filter((field) => current?.[field] !== undefined)
    .map((field) => ({ op: "test", path: `/status/${field}`, value: current?.[field] }));
}

/** What was once known of the pod stays for virt-handler and for people, except attachments: undefined ones are taken away. */
function fieldsOf(next: OwnVmiStatus): object {
  return { ...next, attachments: next.attachments };
}

/** One write at most, and an event for each sync error that is new and not virt-handler's, and for addresses that others are. */
async function reportVmi(facts: VmiFacts, { failures }: PerformedSteps, deps: Deps): Promise<void> {
  const vmi = deps.ownWrites.newest(facts.vmi);
  const next = ownVmiStatus({ ...facts, failures }, printTime(deps.clock.now()));
  const changes = statusPatch(vmi, fieldsOf(next));
  if (changes.length === 0) return;
  const patch = { type: "json", operations: [...preconditions(vmi.status), ...changes] } as const;
  const options = { subresource: "status" } as const;
  deps.ownWrites.note(
    await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch, options),
  );
  const syncError = newSyncError(vmi.status?.conditions, next.conditions);
  // What virt-handler tells has an event of its own.
  const isNews = syncError !== undefined && syncError.reason !== vmi.status?.hindrance?.reason;
  if (isNews) deps.events.record(vmi, { type: "Warning", ...syncError });
  const change = newAddressChange(vmi.status?.conditions, next.conditions);
  if (change !== undefined) deps.events.record(vmi, { type: "Warning", ...change });
}

/** One pass over one VMI. Safe to repeat. */
export async function reconcileVmi(key: string, deps: Deps): Promise<Next> {
  const facts = await observeVmi(key, deps);
  if (facts === undefined) return done();
  const plan = planVmi(facts);
  const outcome = await actVmi(plan, facts, deps);
  const isKept = facts.vmi.metadata.finalizers?.includes(names.VMI_FINALIZER) === true;
  // Without the finalizer the VMI may be gone already.
  const isLetGo = plan.some(({ kind }) => kind === "removeFinalizer");
  if (isKept && !isLetGo) await reportVmi(facts, outcome, deps);
  rethrow(outcome);
  return outcome.againMs === undefined ? done() : after(outcome.againMs);
}
