// SPDX-License-Identifier: Apache-2.0
// Before and after: what does a change of an object say?
import type { KubeObject } from "@patchbay/api";
import type { Change } from "@patchbay/core/ports";

/** The states of an object that a change is about, the older first. */
export function statesOf<T extends KubeObject>(change: Change<T>): readonly T[] {
  return [
    ...(change.kind === "added" ? [] : [change.previous]),
    ...(change.kind === "deleted" ? [] : [change.current]),
  ];
}
