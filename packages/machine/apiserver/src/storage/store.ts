// SPDX-License-Identifier: Apache-2.0
// What the server needs from storage: one log of revisions, one writer, changes in commit order.
import type { Address, KubeObject } from "../objects/object.ts";

/** What is known of a state without reading its text. */
export interface StoredFacts {
  readonly uid: string;
  /** Uids of its owners. */
  readonly owners: readonly string[];
  /** Whether it has a deletionTimestamp. */
  readonly deleting: boolean;
}

/** One state of one object. */
export interface StoredObject extends StoredFacts {
  readonly address: Address;
  /** The revision that made this state; it is the object's resourceVersion. */
  readonly revision: number;
  /** The object as JSON text. */
  readonly text: string;
  /** The object, shared by all readers: it must not be changed. */
  view(): KubeObject;
  /** The object, to be changed by the caller. */
  copy(): KubeObject;
  /** Reads the text now, so that it is there later, whatever is compacted meanwhile. */
  hold(): void;
}

/** What happened to one object. */
export type ChangeType = "ADDED" | "MODIFIED" | "DELETED";

/** One change, in commit order. */
export interface Change {
  readonly type: ChangeType;
  readonly revision: number;
  /** The new state; for DELETED the last state, with the revision of the deletion. */
  readonly current: StoredObject;
  /** The state before; undefined for ADDED. */
  readonly previous: StoredObject | undefined;
}

/** What a mutation may do. It runs without interruption and sees all mutations before it. */
export interface Transaction {
  find(address: Address): StoredObject | undefined;
  /** All objects of a bucket, in no order. */
  list(bucket: string): readonly StoredObject[];
  /** Writes the object and sets its resourceVersion. */
  put(address: Address, object: KubeObject): KubeObject;
  /** Removes the object; `object` is its last state, whose resourceVersion becomes the deletion's. */
  remove(address: Address, object: KubeObject): KubeObject;
}

/** Which objects: a bucket, a namespace unless all are meant, and one name of that namespace where only that is meant. */
export interface Scope {
  readonly bucket: string;
  /** Empty: those without a namespace. */
  readonly namespace?: string;
  readonly name?: string;
}

/** Is called with changes in commit order; must not throw. */
export type Listener = (changes: readonly Change[]) => void;

/** An object that is longer is not stored. Source: etcd, max-request-bytes. */
export const OBJECT_MAX_LENGTH: number = 1.5 * 1024 * 1024;

/** Why a mutation is not made: its object is longer than {@link OBJECT_MAX_LENGTH}. */
export class ObjectTooLong extends Error {
  override readonly name = "ObjectTooLong";
}

/** All objects and their history: reads see what is committed, writes are mutations that are committed in order. */
export interface Store {
  /** The last committed revision. */
  revision(): number;
  find(address: Address): StoredObject | undefined;
  /** Current objects in the order of their addresses. */
  list(scope: Scope): readonly StoredObject[];
  /** Names of all buckets with objects, sorted. */
  buckets(): readonly string[];
  /** Objects as they were at a revision; undefined when that is compacted. Their texts are read when they are asked for: in this turn, or never where `hold` was not called. */
  listAt(scope: Scope, revision: number): readonly StoredObject[] | undefined;
  /** The first changes after a revision in commit order, at most `limit`, and fewer where they are long; undefined when that revision is compacted. */
  changesAfter(scope: Scope, revision: number, limit: number): readonly Change[] | undefined;
  /**
   * Runs a mutation; resolves with its result when everything it wrote is durable. What it throws is thrown, and nothing is written.
   * @throws AppError with STORE_WRITE_FAILED when the disk refuses.
   */
  write<T>(mutation: (transaction: Transaction) => T): Promise<T>;
  /** Calls `listener` with the changes of each commit, before their writers get their answer. */
  subscribe(listener: Listener): () => void;
  /** The same for the changes of one scope; called after those that take everything. */
  follow(scope: Scope, listener: Listener): () => void;
  /** Writes what is queued, then closes. */
  close(): Promise<void>;
}
