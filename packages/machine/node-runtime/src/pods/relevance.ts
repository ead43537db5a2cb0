// SPDX-License-Identifier: Apache-2.0
// Is a change of a pod's object worth a look at its sandbox and containers? Pure.
import type { Pod } from "@patchbay/api";
import { isEqual } from "@patchbay/core";
import type { Change } from "@patchbay/core/ports";

/** The object without what the loop over pods never acts on: each plug of a NIC writes two annotations. */
function actedOn({ metadata, ...rest }: Pod): unknown {
  const unread = { annotations: undefined, managedFields: undefined, resourceVersion: undefined };
  return { ...rest, metadata: { ...metadata, ...unread } };
}

/** Whether the loop over pods may have something to do; looking costs at least four questions of the runtime. */
export function isRelevant(change: Change<Pod>): boolean {
  return change.kind !== "updated" || !isEqual(actedOn(change.previous), actedOn(change.current));
}
