// SPDX-License-Identifier: Apache-2.0
// Interface of the object store. Changes have increasing revisions and are reported in commit order.
import type { Address, KubeObject } from "../objects/object.ts";

/** Fields of a stored object that are available without parsing its text. */
export interface StoredMetadata {
  readonly uid: string;
  readonly owners: readonly string[];
  readonly isDeleting: boolean;
}

export interface StoredObject extends StoredMetadata {
  readonly address: Address;
  /** Revision of the write, which is also the object's resourceVersion. */
  readonly revision: number;
  readonly text: string;
  /** Returns an object that all readers share, so the caller must not change it. */
  view(): KubeObject;
  /** Returns a copy that the caller may change. */
  copy(): KubeObject;
  /** Loads the text, so that it remains available after compaction. */
  loadText(): void;
}

export type ChangeType = "ADDED" | "MODIFIED" | "DELETED";

export interface Change {
  readonly type: ChangeType;
  readonly revision: number;
  /** The new state. For DELETED, it is the last state, but with the revision of the deletion. */
  readonly current: StoredObject;
  /** The state before the change; undefined for ADDED. */
  readonly previous: StoredObject | undefined;
}

/** Access to the store for one mutation, which runs without interruption after all earlier mutations. */
export interface Transaction {
  /** Changes by earlier mutations that are not committed yet. */
  readonly changes: readonly Change[];
  find(address: Address): StoredObject | undefined;
  /** Returns the bucket's objects, in no particular order. */
  list(bucket: string): readonly StoredObject[];
  put(address: Address, object: KubeObject): KubeObject;
  /** Removes the object. `object` must be its last state. Sets the resourceVersion of `object` to the revision of the deletion. */
  remove(address: Address, object: KubeObject): KubeObject;
}

export interface Scope {
  readonly bucket: string;
  /** Namespace; empty for cluster-scoped objects, unset for all namespaces. */
  readonly namespace?: string;
  readonly name?: string;
}

/** Receives changes in commit order. Must not throw. */
export type Listener = (changes: readonly Change[]) => void;

/** Maximum length of an object's text, in characters. Source: etcd, max-request-bytes. */
export const OBJECT_MAX_LENGTH: number = 1.5 * 1024 * 1024;

export class ObjectTooLong extends Error {
  override readonly name = "ObjectTooLong";
}

export interface Store {
  revision(): number;
  find(address: Address): StoredObject | undefined;
  /** Returns the objects, sorted by address. */
  list(scope: Scope): readonly StoredObject[];
  buckets(): readonly string[];
  /**
   * Returns the objects at a revision, or undefined if the revision is compacted. Callers must call loadText on each object
   * immediately, because a later compaction deletes the texts.
   */
  listAt(scope: Scope, revision: number): readonly StoredObject[] | undefined;
  /** Returns at most `limit` changes, and fewer if their texts are long. Returns undefined if the revision is compacted. */
  changesAfter(scope: Scope, revision: number, limit: number): readonly Change[] | undefined;
  /** Runs the mutation, which writes nothing if it throws. Resolves when the writes are durable. */
  write<T>(mutation: (transaction: Transaction) => T): Promise<T>;
  /** Calls `listener` with the changes of each commit, before the writers' promises resolve. */
  subscribe(listener: Listener): () => void;
  /** Calls `listener` with the changes of one scope, after the listeners of `subscribe`. */
  follow(scope: Scope, listener: Listener): () => void;
  close(): Promise<void>;
}

/** Returns the first key of a scope and the first key after it. The key after prefix `a/` is `a0`, because `0` follows `/` in ASCII. */
export function keyRange(scope: Scope): readonly [string, string] {
  const { bucket, namespace, name } = scope;
  if (namespace === undefined) {
    return [`${bucket}/`, `${bucket}0`];
  }
  return name === undefined
    ? [`${bucket}/${namespace}/`, `${bucket}/${namespace}0`]
    : [`${bucket}/${namespace}/${name}`, `${bucket}/${namespace}/${name}\0`];
}

/** Returns keys that identify the three scopes of the address: its bucket, its namespace and the object itself. */
export function scopeKeys({ bucket, namespace, name }: Address): readonly [string, string, string] {
  return [`${bucket}/`, `${bucket}/${namespace}/`, `${bucket}/${namespace}/${name}`];
}
