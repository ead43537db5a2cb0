// SPDX-License-Identifier: Apache-2.0
// Can what came after a revision still be told? Else it is 410, and the client lists again.
import { type StatusError, expired } from "../../meta/status.ts";
import type { Scope, Store } from "../../storage/store.ts";

/** A store begins with it, and no answer has it: clients that name it want to be told that it is too old. */
const EMPTY_REVISION = 1;

/** The refusal of a watch from a revision that is compacted, whether it has begun or not. */
export function tooOld(revision: number, store: Store): StatusError {
  return expired(`too old resource version: ${String(revision)} (${String(store.revision())})`);
}

/** Whether what came after a revision cannot be told any more. Nobody has seen the one of an empty store. */
export function isTooOld(store: Store, scope: Scope, revision: number): boolean {
  return (
    revision === EMPTY_REVISION ||
    (revision > 0 && store.changesAfter(scope, revision, 1) === undefined)
  );
}
