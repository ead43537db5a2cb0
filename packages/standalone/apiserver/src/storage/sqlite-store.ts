// SPDX-License-Identifier: Apache-2.0
// The store. Mutations are queued, run one after the other, and committed in groups.
import { AppError, messageOf } from "@patchbay/base";
import { type Address, parseAddress, printAddress } from "../objects/object.ts";
import { type BatchChange, Batch } from "./batch.ts";
import { ObjectIndex } from "./object-index.ts";
import { type LogChange, type LogRow, RevisionLog } from "./revision-log.ts";
import {
  type Change,
  type ChangeType,
  type Listener,
  type Scope,
  type Store,
  type StoredObject,
  type Transaction,
  keyRange,
  scopeKeys,
} from "./store.ts";
import { TextCache, TextObject } from "./text-object.ts";

export class ChangeListeners {
  readonly #all = new Set<Listener>();
  /** By the first key of the scope's range. */
  readonly #scoped = new Map<string, Set<Listener>>();
  readonly #onError: (error: unknown) => void;

  /** `onError` receives what a listener throws; other listeners are called all the same. */
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  subscribe(listener: Listener): () => void {
    this.#all.add(listener);
    return () => {
      this.#all.delete(listener);
    };
  }

  follow(scope: Scope, listener: Listener): () => void {
    const [key] = keyRange(scope);
    const listeners = this.#scoped.get(key) ?? new Set();
    this.#scoped.set(key, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#scoped.get(key) === listeners) {
        this.#scoped.delete(key);
      }
    };
  }

  /** All listeners of a scope receive the same array, so that they can cache by it. */
  notify(changes: readonly Change[]): void {
    this.#call(this.#all, changes);
    for (const [key, scopedChanges] of this.#groupByScope(changes)) {
      this.#call(this.#scoped.get(key) ?? [], scopedChanges);
    }
  }

  clear(): void {
    this.#all.clear();
    this.#scoped.clear();
  }

  #groupByScope(changes: readonly Change[]): ReadonlyMap<string, readonly Change[]> {
    const groups = new Map<string, Change[]>();
    for (const change of this.#scoped.size === 0 ? [] : changes) {
      for (const key of scopeKeys(change.current.address).filter((each) =>
        this.#scoped.has(each),
      )) {
        const group = groups.get(key) ?? [];
        group.push(change);
        groups.set(key, group);
      }
    }
    return groups;
  }

  #call(listeners: Iterable<Listener>, changes: readonly Change[]): void {
    // a copy, because listeners may unsubscribe
    for (const listener of [...listeners]) {
      try {
        listener(changes);
      } catch (error) {
        this.#onError(error);
      }
    }
  }
}

/** Limits of the buffer: characters and changes. */
const RECENT_MAX_LENGTH = 8 * 1024 * 1024;
const RECENT_MAX_COUNT = 1000;

/** A buffer of the last changes. Watches that are slightly behind read from it instead of from the log. */
export class RecentChanges {
  #changes: Change[] = [];
  #length = 0;
  /** All changes after this revision are in the buffer. */
  #after: number;

  constructor(revision: number) {
    this.#after = revision;
  }

  add(changes: readonly Change[]): void {
    for (const change of changes) {
      this.#changes.push(change);
      this.#length += change.current.text.length;
    }
    let dropped = 0;
    while (this.#length > RECENT_MAX_LENGTH || this.#changes.length - dropped > RECENT_MAX_COUNT) {
      const oldest = this.#changes[dropped];
      if (oldest === undefined) {
        break;
      }
      this.#length -= oldest.current.text.length;
      this.#after = oldest.revision;
      dropped += 1;
    }
    this.#changes = dropped === 0 ? this.#changes : this.#changes.slice(dropped);
  }

  /** Stops at `limit` changes or after `length` characters. Undefined if the buffer does not reach back so far. */
  findAfter(
    scope: Scope,
    revision: number,
    limits: { readonly limit: number; readonly length: number },
  ): readonly Change[] | undefined {
    if (revision < this.#after) {
      return undefined;
    }
    const [from, to] = keyRange(scope);
    const found: Change[] = [];
    let length = 0;
    for (const change of this.#changes) {
      const key = printAddress(change.current.address);
      if (change.revision <= revision || key < from || key >= to) {
        continue;
      }
      found.push(change);
      length += change.current.text.length;
      if (found.length >= limits.limit || length > limits.length) {
        break;
      }
    }
    return found;
  }
}

/** Revisions that remain readable for watches and pages. */
const RETAINED_REVISIONS = 10_000;
/** Revisions that are compacted together, in the commit that makes them too old. */
const COMPACTION_STEP = 500;
/** Characters of current objects in memory. Other texts are read from the file on demand. */
const CACHED_TEXT_LENGTH = 64 * 1024 * 1024;
const READ_MAX_LENGTH = 256 * 1024;
const DISK_FULL_MESSAGE =
  "database or disk is full: until space is free, objects can only be deleted or shrunk";
const LAST_KEY = "\u{10ffff}";

interface Job {
  /** Runs the mutation and returns a callback for when its writes are durable. */
  readonly run: (transaction: Transaction) => () => void;
  readonly reject: (reason: unknown) => void;
}

function toLogRow({ type, revision, current, previous }: Change): LogRow {
  return {
    revision,
    key: printAddress(current.address),
    deleted: type === "DELETED",
    previous: previous?.revision ?? 0,
    facts: current,
    text: current.text,
  };
}

class SqliteStore implements Store {
  readonly #log: RevisionLog;
  readonly #texts: TextCache;
  readonly #index = new ObjectIndex();
  readonly #listeners: ChangeListeners;
  readonly #recent: RecentChanges;
  #queue: Job[] = [];
  #scheduled: Promise<void> | undefined;
  #closed = false;
  #revision: number;
  #compacted: number;

  constructor(path: string, onListenerError: (error: unknown) => void) {
    this.#listeners = new ChangeListeners(onListenerError);
    this.#log = new RevisionLog(path);
    try {
      this.#texts = new TextCache(this.#log, CACHED_TEXT_LENGTH);
      // Revision 0 means "any" in the API, so an empty store has revision 1.
      this.#revision = Math.max(1, this.#log.lastRevision());
      this.#compacted = this.#log.compactedRevision();
      this.#recent = new RecentChanges(this.#revision);
      this.#readIndex();
    } catch (error) {
      this.#log.close();
      throw new AppError("STORE_UNUSABLE", { path, reason: messageOf(error) }, { cause: error });
    }
  }

  revision(): number {
    return this.#revision;
  }

  find(address: Address): StoredObject | undefined {
    return this.#index.find(address);
  }

  list(scope: Scope): readonly StoredObject[] {
    return this.#index.list(scope);
  }

  buckets(): readonly string[] {
    return this.#index.buckets();
  }

  listAt(scope: Scope, revision: number): readonly StoredObject[] | undefined {
    return revision < this.#compacted
      ? undefined
      : this.#log
          .readStates(keyRange(scope), revision)
          .map(
            ({ key, ...at }) => new TextObject({ ...at, address: parseAddress(key) }, this.#log),
          );
  }

  changesAfter(scope: Scope, revision: number, limit: number): readonly Change[] | undefined {
    if (revision < this.#compacted) {
      return undefined;
    }
    const limits = { limit, length: READ_MAX_LENGTH };
    return (
      this.#recent.findAfter(scope, revision, limits) ??
      this.#log
        .readChanges(keyRange(scope), revision, limits)
        .map((change) => this.#toChange(change))
    );
  }

  write<T>(mutation: (transaction: Transaction) => T): Promise<T> {
    if (this.#closed) {
      return Promise.reject(new AppError("STORE_WRITE_FAILED", { reason: "the store is closed" }));
    }
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const run = (transaction: Transaction) => {
      const result = mutation(transaction);
      return () => {
        resolve(result);
      };
    };
    this.#queue.push({ run, reject });
    this.#schedule();
    return promise;
  }

  subscribe(listener: Listener): () => void {
    return this.#listeners.subscribe(listener);
  }

  follow(scope: Scope, listener: Listener): () => void {
    return this.#listeners.follow(scope, listener);
  }

  async close(): Promise<void> {
    this.#closed = true;
    while (this.#scheduled !== undefined) {
      await this.#scheduled;
    }
    this.#listeners.clear();
    this.#log.close();
  }

  /** Shares the strings of buckets and namespaces to save memory. */
  #readIndex(): void {
    const shared = new Map<string, string>();
    const share = (text: string): string => {
      const known = shared.get(text) ?? text;
      shared.set(known, known);
      return known;
    };
    for (const { key, ...at } of this.#log.readStates(["", LAST_KEY], this.#revision)) {
      const { bucket, namespace, name } = parseAddress(key);
      const address = { bucket: share(bucket), namespace: share(namespace), name };
      this.#index.set(new TextObject({ ...at, address }, this.#texts));
    }
  }

  #toChange(row: LogChange): Change {
    const at = { address: parseAddress(row.key), facts: row.facts };
    const previous =
      row.previousText === undefined
        ? undefined
        : new TextObject({ ...at, revision: row.previous }, this.#log, row.previousText);
    const existing: ChangeType = previous === undefined ? "ADDED" : "MODIFIED";
    return {
      type: row.deleted ? "DELETED" : existing,
      revision: row.revision,
      current: new TextObject({ ...at, revision: row.revision }, this.#log, row.text),
      previous,
    };
  }

  /** Commits all mutations of one turn of the event loop together, up to the limits of a batch. */
  #schedule(): void {
    this.#scheduled ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#scheduled = undefined;
        try {
          this.#flush();
        } finally {
          if (this.#queue.length > 0) {
            this.#schedule();
          }
          resolve();
        }
      });
    });
  }

  #flush(): void {
    const batch = new Batch(this.#index, this.#texts, this.#revision);
    const isDiskShort = this.#log.isDiskShort();
    const finished: { readonly job: Job; readonly finish: () => void }[] = [];
    for (let job = this.#queue.shift(); job !== undefined; job = this.#queue.shift()) {
      try {
        const finish = job.run(batch);
        if (isDiskShort && batch.isGrowing)
          throw new AppError("STORE_WRITE_FAILED", { reason: DISK_FULL_MESSAGE });
        batch.accept();
        finished.push({ job, finish });
      } catch (error) {
        batch.rollBack();
        job.reject(error);
      }
      if (batch.isFull) {
        break;
      }
    }
    try {
      this.#commit(batch.changes);
    } catch (error) {
      for (const { job } of finished) {
        job.reject(error);
      }
      return;
    }
    for (const { finish } of finished) {
      finish();
    }
  }

  /** Readers and listeners see the changes only after they are durable. */
  #commit(changes: readonly BatchChange[]): void {
    const last = changes.at(-1);
    if (last === undefined) {
      return;
    }
    const isCompactionDue = last.revision - this.#compacted > RETAINED_REVISIONS + COMPACTION_STEP;
    const compacted = isCompactionDue ? last.revision - RETAINED_REVISIONS : this.#compacted;
    this.#log.append(
      changes.map(toLogRow),
      isCompactionDue ? [this.#compacted, compacted] : undefined,
    );
    this.#compacted = compacted;
    this.#revision = last.revision;
    changes.forEach((change) => {
      this.#apply(change);
    });
    this.#recent.add(changes);
    this.#listeners.notify(changes);
  }

  #apply({ type, current, previous }: BatchChange): void {
    if (previous !== undefined) {
      this.#texts.release(previous);
    }
    if (type === "DELETED") {
      this.#index.remove(current.address);
    } else {
      this.#index.set(current);
      this.#texts.add(current, current.text);
    }
  }
}

/**
 * `:memory:` persists nothing. `onListenerError` receives what a listener throws.
 * @throws AppError with STORE_UNUSABLE when it cannot be opened, is damaged, or another process has it.
 */
export function openStore(path: string, onListenerError: (error: unknown) => void): Store {
  return new SqliteStore(path, onListenerError);
}
