// SPDX-License-Identifier: Apache-2.0
// Keeps for a VM what its instancetype and its preference say at its first use of them.
import {
  controllerOf,
  CONTROLLER_REVISIONS,
  VIRTUAL_MACHINES,
  type ControllerRevision,
  type VirtualMachine,
} from "@patchbay/api";
import { isAppError, statusPatch, type RefsPlan } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";

/** One that is there is as good, if it is this VM's: a former VM of its name leaves its own behind for a moment. */
async function makeRevision(
  vm: VirtualMachine,
  revision: ControllerRevision,
  { store, log }: Deps,
): Promise<void> {
  try {
    await store.create(CONTROLLER_REVISIONS, revision);
    log.info("kept revision", { vm: printKey(keyOf(vm)), revision: revision.metadata.name });
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
    const there = await store.find(CONTROLLER_REVISIONS, keyOf(revision));
    if (there === undefined || controllerOf(there)?.uid !== vm.metadata.uid) throw error;
  }
}

/** Makes the revisions, then has the VM's status tell of them. */
export async function keepParts(vm: VirtualMachine, plan: RefsPlan, deps: Deps): Promise<void> {
  for (const revision of plan.revisions) await makeRevision(vm, revision, deps);
  const operations = statusPatch(deps.ownWrites.newest(vm), plan.refs);
  const patch = { type: "json", operations } as const;
  const options = { subresource: "status" } as const;
  deps.ownWrites.note(await deps.store.patch(VIRTUAL_MACHINES, keyOf(vm), patch, options));
}
