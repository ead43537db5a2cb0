// SPDX-License-Identifier: Apache-2.0
// Store on top of the revision log. Mutations are queued, run sequentially, and committed in batches.
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
  readonly #globalListeners = new Set<Listener>();
  /** Listeners of scopes, by the first key of the scope's range. */
  readonly #scopeListeners = new Map<string, Set<Listener>>();
  readonly #onError: (error: unknown) => void;

  /** `onError` receives the errors that listeners throw. The other listeners are called even after an error. */
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  subscribe(listener: Listener): () => void {
    this.#globalListeners.add(listener);
    return () => {
      this.#globalListeners.delete(listener);
    };
  }

  follow(scope: Scope, listener: Listener): () => void {
    const [key] = keyRange(scope);
    const listeners = this.#scopeListeners.get(key) ?? new Set();
    this.#scopeListeners.set(key, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#scopeListeners.get(key) === listeners) {
        this.#scopeListeners.delete(key);
      }
    };
  }

  /** Calls the listeners. All listeners of a scope receive the same array, which they can use as a cache key. */
  notify(changes: readonly Change[]): void {
    this.#call(this.#globalListeners, changes);
    for (const [key, scopedChanges] of this.#groupByScope(changes)) {
      this.#call(this.#scopeListeners.get(key) ?? [], scopedChanges);
    }
  }

  clear(): void {
    this.#globalListeners.clear();
    this.#scopeListeners.clear();
  }

  #groupByScope(changes: readonly Change[]): ReadonlyMap<string, readonly Change[]> {
    const groups = new Map<string, Change[]>();
    for (const change of this.#scopeListeners.size === 0 ? [] : changes) {
      for (const key of scopeKeys(change.current.address).filter((scopeKey) =>
        this.#scopeListeners.has(scopeKey),
      )) {
        const group = groups.get(key) ?? [];
        group.push(change);
        groups.set(key, group);
      }
    }
    return groups;
  }

  #call(listeners: Iterable<Listener>, changes: readonly Change[]): void {
    // Iterates over a copy, because listeners may unsubscribe.
    for (const listener of [...listeners]) {
      try {
        listener(changes);
      } catch (error) {
        this.#onError(error);
      }
    }
  }
}

/** Maximum total length of the buffered changes in characters, and their maximum number. */
const RECENT_MAX_LENGTH = 2 * 1024 * 1024;
const RECENT_MAX_COUNT = 1000;

/** Includes the previous text, which only the change retains. */
function lengthOf({ current, previous }: Change): number {
  return current.text.length + (previous?.text.length ?? 0);
}

/** Buffer of the last changes. Watches that are slightly behind do not need to read the log. */
export class RecentChanges {
  #changes: Change[] = [];
  #length = 0;
  /** The buffer contains all changes after this revision. */
  #startRevision: number;

  constructor(revision: number) {
    this.#startRevision = revision;
  }

  add(changes: readonly Change[]): void {
    for (const change of changes) {
      this.#changes.push(change);
      this.#length += lengthOf(change);
    }
    let droppedCount = 0;
    while (
      this.#length > RECENT_MAX_LENGTH ||
      this.#changes.length - droppedCount > RECENT_MAX_COUNT
    ) {
      const oldest = this.#changes[droppedCount];
      if (oldest === undefined) {
        break;
      }
      this.#length -= lengthOf(oldest);
      this.#startRevision = oldest.revision;
      droppedCount += 1;
    }
    this.#changes = droppedCount === 0 ? this.#changes : this.#changes.slice(droppedCount);
  }

  /** Returns changes after `revision` within the limits, or undefined if the buffer starts at a later revision. */
  findAfter(
    scope: Scope,
    revision: number,
    limits: { readonly limit: number; readonly length: number },
  ): readonly Change[] | undefined {
    if (revision < this.#startRevision) {
      return undefined;
    }
    const [from, to] = keyRange(scope);
    const foundChanges: Change[] = [];
    let length = 0;
    for (const change of this.#changes) {
      const key = printAddress(change.current.address);
      if (change.revision <= revision || key < from || key >= to) {
        continue;
      }
      foundChanges.push(change);
      length += change.current.text.length;
      if (foundChanges.length >= limits.limit || length > limits.length) {
        break;
      }
    }
    return foundChanges;
  }
}

/** Number of revisions that remain readable for watches and for further pages of lists. */
const RETAINED_REVISIONS = 10_000;
/** Number of revisions beyond RETAINED_REVISIONS that triggers a compaction. */
const COMPACTION_STEP = 500;
/** Maximum total length of object texts in memory, in characters. Other texts are read from the file on demand. */
const CACHED_TEXT_LENGTH = 64 * 1024 * 1024;
const READ_MAX_LENGTH = 256 * 1024;
const LAST_KEY = "\u{10ffff}";

interface Job {
  /** Runs the mutation. Returns a callback to call when the writes are durable. */
  readonly run: (transaction: Transaction) => () => void;
  readonly reject: (reason: unknown) => void;
}

function toLogRow({ type, revision, current, previous }: Change): LogRow {
  return {
    revision,
    key: printAddress(current.address),
    isDeleted: type === "DELETED",
    previousRevision: previous?.revision ?? 0,
    metadata: current,
    text: current.text,
  };
}

class SqliteStore implements Store {
  readonly #log: RevisionLog;
  readonly #texts: TextCache;
  readonly #index = new ObjectIndex();
  readonly #listeners: ChangeListeners;
  readonly #recentChanges: RecentChanges;
  #queue: Job[] = [];
  #scheduledFlush: Promise<void> | undefined;
  #isClosed = false;
  #revision: number;
  #compactedRevision: number;

  constructor(path: string, onListenerError: (error: unknown) => void) {
    this.#listeners = new ChangeListeners(onListenerError);
    this.#log = new RevisionLog(path);
    try {
      this.#texts = new TextCache(this.#log, CACHED_TEXT_LENGTH);
      // Revision 0 means "any" in the API, so an empty store has revision 1.
      this.#revision = Math.max(1, this.#log.lastRevision());
      this.#compactedRevision = this.#log.compactedRevision();
      this.#recentChanges = new RecentChanges(this.#revision);
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
    return revision < this.#compactedRevision
      ? undefined
      : this.#log
          .readStates(keyRange(scope), revision)
          .map(
            ({ key, ...identity }) =>
              new TextObject({ ...identity, address: parseAddress(key) }, this.#log),
          );
  }

  changesAfter(scope: Scope, revision: number, limit: number): readonly Change[] | undefined {
    if (revision < this.#compactedRevision) {
      return undefined;
    }
    const limits = { limit, length: READ_MAX_LENGTH };
    return (
      this.#recentChanges.findAfter(scope, revision, limits) ??
      this.#log
        .readChanges(keyRange(scope), revision, limits)
        .map((change) => this.#toChange(change))
    );
  }

  write<T>(mutation: (transaction: Transaction) => T): Promise<T> {
    if (this.#isClosed) {
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
    this.#isClosed = true;
    while (this.#scheduledFlush !== undefined) {
      await this.#scheduledFlush;
    }
    this.#listeners.clear();
    this.#log.close();
  }

  /** Fills the index. Shares the strings of buckets and namespaces to save memory. */
  #readIndex(): void {
    const sharedStrings = new Map<string, string>();
    const share = (text: string): string => {
      const sharedText = sharedStrings.get(text) ?? text;
      sharedStrings.set(sharedText, sharedText);
      return sharedText;
    };
    for (const { key, ...identity } of this.#log.readStates(["", LAST_KEY], this.#revision)) {
      const { bucket, namespace, name } = parseAddress(key);
      const address = { bucket: share(bucket), namespace: share(namespace), name };
      this.#index.set(new TextObject({ ...identity, address }, this.#texts));
    }
  }

  #toChange(row: LogChange): Change {
    const identity = { address: parseAddress(row.key), metadata: row.metadata };
    const previous =
      row.previousText === undefined
        ? undefined
        : new TextObject(
            { ...identity, revision: row.previousRevision },
            this.#log,
            row.previousText,
          );
    const writeType: ChangeType = previous === undefined ? "ADDED" : "MODIFIED";
    return {
      type: row.isDeleted ? "DELETED" : writeType,
      revision: row.revision,
      current: new TextObject({ ...identity, revision: row.revision }, this.#log, row.text),
      previous,
    };
  }

  /** Schedules a commit of the queued mutations, so that all mutations of one turn of the event loop share a batch. */
  #schedule(): void {
    this.#scheduledFlush ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#scheduledFlush = undefined;
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
    const finishedJobs: { readonly job: Job; readonly finish: () => void }[] = [];
    for (let job = this.#queue.shift(); job !== undefined; job = this.#queue.shift()) {
      try {
        const finish = job.run(batch);
        if (isDiskShort && batch.isGrowing) throw new AppError("STORE_FULL");
        batch.accept();
        finishedJobs.push({ job, finish });
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
      for (const { job } of finishedJobs) {
        job.reject(error);
      }
      return;
    }
    for (const { finish } of finishedJobs) {
      finish();
    }
  }

  /** Commits the changes. Readers and listeners receive the changes only when they are durable. */
  #commit(changes: readonly BatchChange[]): void {
    const lastChange = changes.at(-1);
    if (lastChange === undefined) {
      return;
    }
    const isCompactionDue =
      lastChange.revision - this.#compactedRevision > RETAINED_REVISIONS + COMPACTION_STEP;
    const compactedRevision = isCompactionDue
      ? lastChange.revision - RETAINED_REVISIONS
      : this.#compactedRevision;
    this.#log.append(
      changes.map(toLogRow),
      isCompactionDue ? [this.#compactedRevision, compactedRevision] : undefined,
    );
    this.#compactedRevision = compactedRevision;
    this.#revision = lastChange.revision;
    changes.forEach((change) => {
      this.#apply(change);
    });
    this.#recentChanges.add(changes);
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

/** Opens a store. `:memory:` persists nothing. Throws an AppError STORE_UNUSABLE if the file is damaged or in use. */
export function openStore(path: string, onListenerError: (error: unknown) => void): Store {
  return new SqliteStore(path, onListenerError);
}
