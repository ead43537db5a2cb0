// SPDX-License-Identifier: Apache-2.0
// Kubernetes objects, as far as a watch has told.
import type { KubeObject } from "@patchbay/api";
import type { ObjectKey } from "./store.ts";

/** One change that a cache has seen. A recreated object is a `deleted` and an `added`. */
export type Change<T extends KubeObject> =
  | { readonly kind: "added"; readonly current: T }
  | { readonly kind: "updated"; readonly previous: T; readonly current: T }
  | { readonly kind: "deleted"; readonly previous: T };

/** A local copy of the objects of one kind, kept current by a watch. Objects must not be changed. */
export interface Cache<T extends KubeObject> {
  find(key: ObjectKey): T | undefined;
  /** All objects, sorted by namespace and name. */
  list(): readonly T[];
  /** Objects for which the index function gave `value`, sorted. */
  listBy(index: string, value: string): readonly T[];
  /** Calls `listener` after each change until the returned function is called. */
  onChange(listener: (change: Change<T>) => void): () => void;
  /** Resolves when the first list is in the cache. */
  synced(): Promise<void>;
}
