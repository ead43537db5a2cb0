// SPDX-License-Identifier: Apache-2.0
// The server's interface to storage: one log of revisions, one writer, changes in commit order.
import type { Address, KubeObject } from "../objects/object.ts";

/** Fields of a stored object that are available without parsing its text. */
export interface StoredFacts {
  readonly uid: string;
  /** UIDs of the owners. */
  readonly owners: readonly string[];
  readonly deleting: boolean;
}

export interface StoredObject extends StoredFacts {
  readonly address: Address;
  /** Also the object's resourceVersion. */
  readonly revision: number;
  readonly text: string;
  /** Shared by all readers: the caller must not change it. */
  view(): KubeObject;
  /** A copy that the caller may change. */
  copy(): KubeObject;
  /** Loads the text now, so that it stays available after compaction. */
  loadText(): void;
}

export type ChangeType = "ADDED" | "MODIFIED" | "DELETED";

export interface Change {
  readonly type: ChangeType;
  readonly revision: number;
  /** The new state. For DELETED, the last state with the revision of the deletion. */
  readonly current: StoredObject;
  /** Undefined for ADDED. */
  readonly previous: StoredObject | undefined;
}

/** The view of a mutation. It runs without interruption and sees all earlier mutations. */
export interface Transaction {
  find(address: Address): StoredObject | undefined;
  /** In no particular order. */
  list(bucket: string): readonly StoredObject[];
  /** Sets the object's resourceVersion. */
  put(address: Address, object: KubeObject): KubeObject;
  /** `object` is the last state; its resourceVersion becomes the revision of the deletion. */
  remove(address: Address, object: KubeObject): KubeObject;
}

export interface Scope {
  readonly bucket: string;
  /** Empty for cluster-scoped objects. Unset for all namespaces. */
  readonly namespace?: string;
  readonly name?: string;
}

/** Receives changes in commit order. Must not throw. */
export type Listener = (changes: readonly Change[]) => void;

/** Source: etcd, max-request-bytes. */
export const OBJECT_MAX_LENGTH: number = 1.5 * 1024 * 1024;

export class ObjectTooLong extends Error {
  override readonly name = "ObjectTooLong";
}

export interface Store {
  /** The last committed revision. */
  revision(): number;
  find(address: Address): StoredObject | undefined;
  /** Sorted by address. */
  list(scope: Scope): readonly StoredObject[];
  buckets(): readonly string[];
  /** Undefined if the revision is compacted. Texts must be read in this turn of the event loop, or after `hold`. */
  listAt(scope: Scope, revision: number): readonly StoredObject[] | undefined;
  /** At most `limit` changes, and fewer if they are long. Undefined if the revision is compacted. */
  changesAfter(scope: Scope, revision: number, limit: number): readonly Change[] | undefined;
  /**
   * Resolves when the writes are durable. If the mutation throws, nothing is written. Throws AppError
   * STORE_WRITE_FAILED.
   */
  write<T>(mutation: (transaction: Transaction) => T): Promise<T>;
  /** Calls `listener` with the changes of each commit, before the writers' promises resolve. */
  subscribe(listener: Listener): () => void;
  /** Like `subscribe`, for one scope. Called after the listeners of all changes. */
  follow(scope: Scope, listener: Listener): () => void;
  /** Commits what is queued, then closes. */
  close(): Promise<void>;
}

/** First key of a scope, and first key after it: `0` follows `/` in ASCII. */
export function keyRange(scope: Scope): readonly [string, string] {
  const { bucket, namespace, name } = scope;
  if (namespace === undefined) {
    return [`${bucket}/`, `${bucket}0`];
  }
  return name === undefined
    ? [`${bucket}/${namespace}/`, `${bucket}/${namespace}0`]
    : [`${bucket}/${namespace}/${name}`, `${bucket}/${namespace}/${name}\0`];
}

/** The scopes that contain an address, from wide to narrow, each as the first key of its range. */
export function scopeKeys({ bucket, namespace, name }: Address): readonly [string, string, string] {
  return [`${bucket}/`, `${bucket}/${namespace}/`, `${bucket}/${namespace}/${name}`];
}
