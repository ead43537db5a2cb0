// SPDX-License-Identifier: Apache-2.0
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { ObjectKey } from "./store.ts";

/** A change in a cache. A recreated object is reported as `deleted`, then as `added`. */
export type Change<T extends KubeObject> =
  | { readonly kind: "added"; readonly current: T }
  | { readonly kind: "updated"; readonly previous: T; readonly current: T }
  | { readonly kind: "deleted"; readonly previous: T };

/** A local copy of all objects of one kind, updated by a watch. Callers must not modify the objects. */
export interface Cache<T extends KubeObject> {
  find(key: ObjectKey): T | undefined;
  list(): readonly T[];
  /** Returns the objects for which the index function named `index` returned `value`, sorted by namespace and name. */
  listBy(index: string, value: string): readonly T[];
  /** Calls `listener` after each change until the returned function is called. */
  onChange(listener: (change: Change<T>) => void): () => void;
  synced(): Promise<void>;
}
