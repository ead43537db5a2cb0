// SPDX-License-Identifier: Apache-2.0
// DELETE of a collection: each object of the list, as DELETE would.
import { StatusError } from "../meta/status.ts";
import type { StoredObject } from "../storage/store.ts";
import type { Call, Reply } from "./call.ts";
import type { VerbDeps } from "./deps.ts";
import { deleteOne } from "./delete.ts";
import { type DeleteOptions, deleteOptionsOf } from "./options/delete-options.ts";
import { listObjects } from "./list.ts";

async function deleteStored(
  call: Call,
  deps: VerbDeps,
  step: { readonly stored: StoredObject; readonly options: DeleteOptions },
): Promise<void> {
  const { namespace, name } = step.stored.address;
  try {
    await deleteOne({ ...call, namespace, name }, deps, step.options);
  } catch (error) {
    // Someone else deleted it first.
    if (!(error instanceof StatusError && error.code === 404)) {
      throw error;
    }
  }
}

/** Deletes what a list with the same query shows, page by page where it has a limit; answers with that list. */
export async function deleteCollection(call: Call, deps: VerbDeps): Promise<Reply> {
  const options = deleteOptionsOf(call);
  const reply = await listObjects(call, deps);
  const items = reply.type === "list" ? reply.items : [];
  await Promise.all(items.map((stored) => deleteStored(call, deps, { stored, options })));
  return reply;
}
