// SPDX-License-Identifier: Apache-2.0
// Writes virt-controller's fields of the VMI's status when they say something new.
import { VIRTUAL_MACHINE_INSTANCES, type VmiStatus, type JsonPatchOperation } from "@patchbay/api";
import {
  newAddressChange,
  newSyncError,
  ownVmiStatus,
  statusPatch,
  type OwnVmiStatus,
  type VmiFacts,
} from "@patchbay/core";
import { keyOf, printTime } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { PerformedSteps } from "../steps.ts";

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
export async function reportVmi(
  facts: VmiFacts,
  { failures }: PerformedSteps,
  deps: Deps,
): Promise<void> {
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
