// SPDX-License-Identifier: Apache-2.0
// Writes virt-controller's fields of the VMI's status when they say something new.
import { VIRTUAL_MACHINE_INSTANCES, type VmiStatus } from "@patchbay/api";
import { isEqual, ownVmiStatus, type OwnVmiStatus, type VmiFacts } from "@patchbay/core";
import { keyOf, printTime } from "@patchbay/kube";
import type { JsonPatchOperation } from "@patchbay/ports";
import type { Deps } from "../../deps.ts";

const OWN_FIELDS = ["phase", "nodeName", "activePods", "attachments", "conditions"] as const;

/** `status.interfaces` is part of the decision to let an attachment go, `phase` has a second writer: both are tested. */
function preconditions(current: VmiStatus): readonly JsonPatchOperation[] {
  return (["phase", "interfaces"] as const)
    .filter((field) => current[field] !== undefined)
    .map((field) => ({ op: "test", path: `/status/${field}`, value: current[field] }));
}

function changes(current: VmiStatus, next: OwnVmiStatus): readonly JsonPatchOperation[] {
  return OWN_FIELDS.flatMap((field): readonly JsonPatchOperation[] => {
    if (isEqual(current[field], next[field])) return [];
    const path = `/status/${field}`;
    if (next[field] !== undefined) return [{ op: "add", path, value: next[field] }];
    // What was once known of the pod stays for virt-handler and for people, except attachments.
    return field === "attachments" ? [{ op: "remove", path }] : [];
  });
}

/** One write at most. */
export async function reportVmi(facts: VmiFacts, deps: Deps): Promise<void> {
  const { vmi } = facts;
  const now = printTime(deps.clock.now());
  const next = ownVmiStatus(facts, now, deps.sha256Hex);
  const operations =
    vmi.status === undefined
      ? [{ op: "add", path: "/status", value: next } as const]
      : changes(vmi.status, next);
  if (operations.length === 0) return;
  const patch = {
    type: "json",
    operations: [...preconditions(vmi.status ?? {}), ...operations],
  } as const;
  const options = { subresource: "status" } as const;
  deps.ownWrites.note(
    await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch, options),
  );
}
