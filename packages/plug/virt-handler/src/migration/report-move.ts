// SPDX-License-Identifier: Apache-2.0
// Writes this node's members of a VMI's `migrationState`: those of docs/reference/ownership.md, as the node guard lets them pass.
import {
  VIRTUAL_MACHINE_INSTANCES,
  type JsonPatchOperation,
  type MigrationState,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { keyOf } from "@patchbay/kube";
import type { Deps } from "../deps.ts";

const PATH = "/status/migrationState";

/** How sure it must be that nobody has written meanwhile: of the same migration, or nothing at all has changed in what is told of it. */
type Tested = "migration" | "all";

function testOf(told: MigrationState, tested: Tested): JsonPatchOperation {
  return tested === "all"
    ? { op: "test", path: PATH, value: told }
    : { op: "test", path: `${PATH}/migrationUid`, value: told.migrationUid };
}

/**
 * One write.
 * @throws AppError with KUBE_CONFLICT when something else is told of the migration by now
 */
export async function reportMove(
  vmi: VirtualMachineInstance,
  fields: Partial<MigrationState>,
  { deps, test = "migration" }: { readonly deps: Deps; readonly test?: Tested },
): Promise<void> {
  const told = vmi.status?.migrationState ?? {};
  const changes = Object.entries(fields).map(([field, value]): JsonPatchOperation => ({
    op: "add",
    path: `${PATH}/${field}`,
    value,
  }));
  const patch = { type: "json", operations: [testOf(told, test), ...changes] } as const;
  const options = { subresource: "status" } as const;
  const { store, ownWrites } = deps;
  ownWrites.note(await store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch, options));
}
