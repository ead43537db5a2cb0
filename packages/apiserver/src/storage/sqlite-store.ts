// SPDX-License-Identifier: Apache-2.0
// The store: mutations are queued, run one after the other, and committed together (group commit).
import { AppError } from "@patchbay/core/errors";
import { printJson } from "../objects/json.ts";
import { type Address, type KubeObject, printAddress } from "../objects/object.ts";
import { ObjectIndex, TextObject, rangeOf, toStored } from "./index-of-objects.ts";
import { type LogChange, type LogRow, RevisionLog } from "./log.ts";
import type { Change, ChangeType, Scope, Store, StoredObject, Transaction } from "./store.ts";

/** Revisions that stay readable for watches and pages; compaction runs at twice as many. */
const KEPT_REVISIONS = 10_000;

interface Job {
  /** Runs the mutation; gives what to call when its writes are durable. */
  readonly run: (transaction: Transaction) => () => void;
  readonly reject: (reason: unknown) => void;
}

/** What the mutations of one batch wrote; later ones see what earlier ones did. */
class Batch implements Transaction {
  readonly changes: Change[] = [];
  #own: Change[] = [];
  readonly #states = new Map<string, StoredObject | undefined>();
  readonly #index: ObjectIndex;
  #revision: number;

  constructor(index: ObjectIndex, revision: number) {
    this.#index = index;
    this.#revision = revision;
  }

  find(address: Address): StoredObject | undefined {
    const key = printAddress(address);
    const own = this.#own.findLast((change) => printAddress(change.current.address) === key);
    if (own !== undefined) {
      return own.type === "DELETED" ? undefined : own.current;
    }
    return this.#states.has(key) ? this.#states.get(key) : this.#index.find(address);
  }

  put(address: Address, object: KubeObject): KubeObject {
    return this.#record(address, object, this.find(address) === undefined ? "ADDED" : "MODIFIED");
  }

  remove(address: Address, object: KubeObject): KubeObject {
    return this.#record(address, object, "DELETED");
  }

  /** Keeps what the current mutation wrote. */
  keep(): void {
    for (const change of this.#own) {
      const state = change.type === "DELETED" ? undefined : change.current;
      this.#states.set(printAddress(change.current.address), state);
      this.changes.push(change);
    }
    this.#own = [];
  }

  /** Forgets what the current mutation wrote. */
  forget(): void {
    this.#revision -= this.#own.length;
    this.#own = [];
  }

  #record(address: Address, object: KubeObject, type: ChangeType): KubeObject {
    const previous = this.find(address);
    this.#revision += 1;
    object.metadata.resourceVersion = String(this.#revision);
    const current = new TextObject(address, this.#revision, printJson(object));
    this.#own.push({ type, revision: this.#revision, current, previous });
    return object;
  }
}

function toLogRow(change: Change): LogRow {
  return {
    revision: change.revision,
    key: printAddress(change.current.address),
    deleted: change.type === "DELETED",
    previous: change.previous?.revision ?? 0,
    text: change.current.text,
  };
}

function toChange(row: LogChange): Change {
  const previous =
    row.previousText === undefined ? undefined : toStored(row.key, row.previous, row.previousText);
  const existing: ChangeType = previous === undefined ? "ADDED" : "MODIFIED";
  return {
    type: row.deleted ? "DELETED" : existing,
    revision: row.revision,
    current: toStored(row.key, row.revision, row.text),
    previous,
  };
}

class SqliteStore implements Store {
  readonly #log: RevisionLog;
  readonly #index = new ObjectIndex();
  readonly #listeners = new Set<(changes: readonly Change[]) => void>();
  #queue: Job[] = [];
  #scheduled: Promise<void> | undefined;
  #closed = false;
  #revision: number;
  #compacted: number;

  constructor(path: string) {
    this.#log = new RevisionLog(path);
    // Revision 0 means "any" in the protocol, so an empty store begins at 1.
    this.#revision = Math.max(1, this.#log.lastRevision());
    this.#compacted = this.#log.compactedRevision();
    for (const row of this.#log.readStates("", "\u{10ffff}", this.#revision)) {
      this.#index.set(toStored(row.key, row.revision, row.text));
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
    if (revision < this.#compacted) {
      return undefined;
    }
    const [from, to] = rangeOf(scope);
    return this.#log
      .readStates(from, to, revision)
      .map((row) => toStored(row.key, row.revision, row.text));
  }

  changesAfter(scope: Scope, revision: number): readonly Change[] | undefined {
    if (revision < this.#compacted) {
      return undefined;
    }
    const [from, to] = rangeOf(scope);
    return revision >= this.#revision
      ? []
      : this.#log.readChanges(from, to, revision).map(toChange);
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

  subscribe(listener: (changes: readonly Change[]) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#scheduled;
    this.#listeners.clear();
    this.#log.close();
  }

  /** What arrives in one turn of the event loop is committed together. */
  #schedule(): void {
    this.#scheduled ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#scheduled = undefined;
        this.#flush();
        resolve();
      });
    });
  }

  #flush(): void {
    const jobs = this.#queue;
    this.#queue = [];
    const batch = new Batch(this.#index, this.#revision);
    const done: { readonly job: Job; readonly finish: () => void }[] = [];
    for (const job of jobs) {
      try {
        const finish = job.run(batch);
        batch.keep();
        done.push({ job, finish });
      } catch (error) {
        batch.forget();
        job.reject(error);
      }
    }
    try {
      this.#commit(batch.changes);
    } catch (error) {
      for (const { job } of done) {
        job.reject(error);
      }
      return;
    }
    for (const { finish } of done) {
      finish();
    }
  }

  #commit(changes: readonly Change[]): void {
    if (changes.length === 0) {
      return;
    }
    this.#log.append(changes.map(toLogRow));
    for (const change of changes) {
      this.#revision = change.revision;
      if (change.type === "DELETED") {
        this.#index.remove(change.current.address);
      } else {
        this.#index.set(change.current);
      }
    }
    for (const listener of this.#listeners) {
      listener(changes);
    }
    this.#compactWhenDue();
  }

  #compactWhenDue(): void {
    if (this.#revision - this.#compacted > 2 * KEPT_REVISIONS) {
      this.#compacted = this.#revision - KEPT_REVISIONS;
      this.#log.compact(this.#compacted);
    }
  }
}

/**
 * Opens or makes a store; `:memory:` keeps nothing. A store whose last server was killed opens as it was at the last acknowledgement.
 * @throws AppError with STORE_UNUSABLE when it cannot be opened or another process has it.
 */
export function openStore(path: string): Store {
  return new SqliteStore(path);
}
