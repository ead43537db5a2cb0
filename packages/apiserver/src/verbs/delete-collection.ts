// SPDX-License-Identifier: Apache-2.0
// DELETE of a collection: each object that matches, as DELETE would.
import { StatusError } from "../http/status.ts";
import type { StoredObject } from "../storage/store.ts";
import type { Call, Deps, Reply } from "./call.ts";
import { deleteOne, deleteOptionsOf } from "./delete.ts";
import { parseSelection, select } from "./selection.ts";

async function deleteStored(call: Call, deps: Deps, stored: StoredObject): Promise<void> {
  const { namespace, name } = stored.address;
  try {
    await deleteOne({ ...call, namespace, name }, deps, deleteOptionsOf(call));
  } catch (error) {
    // Someone else deleted it first.
    if (!(error instanceof StatusError && error.code === 404)) {
      throw error;
    }
  }
}

/** Deletes what matches; answers with the list as it was. */
export async function deleteCollection(call: Call, deps: Deps): Promise<Reply> {
  const selection = parseSelection(call);
  const items = select(deps.store.list(selection.scope), selection);
  await Promise.all(items.map((stored) => deleteStored(call, deps, stored)));
  return { type: "list", items, revision: deps.store.revision() };
}
