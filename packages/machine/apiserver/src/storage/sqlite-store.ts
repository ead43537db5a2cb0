// SPDX-License-Identifier: Apache-2.0
// The store: mutations are queued, run one after the other, and committed together (group commit).
import { AppError, messageOf } from "@patchbay/core/errors";
import { type Address, parseAddress, printAddress } from "../objects/object.ts";
import { Batch, type OwnChange } from "./batch.ts";
import { Followers } from "./followers.ts";
import { ObjectIndex } from "./index-of-objects.ts";
import { type LogChange, type LogRow, RevisionLog } from "./revision-log.ts";
import { RecentChanges } from "./recent-changes.ts";
import { rangeOf } from "./scope.ts";
import type {
  Change,
  ChangeType,
  Listener,
  Scope,
  Store,
  StoredObject,
  Transaction,
} from "./store.ts";
import { TextCache, TextObject } from "./text-object.ts";

/** Revisions that stay readable for watches and pages. */
const KEPT_REVISIONS = 10_000;
/** So many are forgotten together, within the commit that makes them too old. */
const COMPACTION_STEP = 500;
/** Texts of current objects in memory, characters; the others are read from the file when they are asked for. */
const CACHED_TEXT_LENGTH = 64 * 1024 * 1024;
/** Characters of changes that are given at once. */
const CHANGES_MAX_LENGTH = 256 * 1024;
const FULL =
  "database or disk is full: until there is room again, things are only deleted and changed";
const LAST_KEY = "\u{10ffff}";

interface Job {
  /** Runs the mutation; gives what to call when its writes are durable. */
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
  readonly #followers: Followers;
  readonly #recent: RecentChanges;
  #queue: Job[] = [];
  #scheduled: Promise<void> | undefined;
  #closed = false;
  #revision: number;
  #compacted: number;

  constructor(path: string, onListenerError: (error: unknown) => void) {
    this.#followers = new Followers(onListenerError);
    this.#log = new RevisionLog(path);
    try {
      this.#texts = new TextCache(this.#log, CACHED_TEXT_LENGTH);
      // Revision 0 means "any" in the protocol, so an empty store begins at 1.
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
          .readStates(rangeOf(scope), revision)
          .map(
            ({ key, ...at }) => new TextObject({ ...at, address: parseAddress(key) }, this.#log),
          );
  }

  changesAfter(scope: Scope, revision: number, limit: number): readonly Change[] | undefined {
    if (revision < this.#compacted) {
      return undefined;
    }
    const most = { limit, length: CHANGES_MAX_LENGTH };
    return (
      this.#recent.findAfter(scope, revision, most) ??
      this.#log.readChanges(rangeOf(scope), revision, most).map((change) => this.#toChange(change))
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
    return this.#followers.subscribe(listener);
  }

  follow(scope: Scope, listener: Listener): () => void {
    return this.#followers.follow(scope, listener);
  }

  async close(): Promise<void> {
    this.#closed = true;
    while (this.#scheduled !== undefined) {
      await this.#scheduled;
    }
    this.#followers.clear();
    this.#log.close();
  }

  /** Texts of the same bucket and namespace are shared: there are few of them. */
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

  /** What arrives in one turn of the event loop is committed together, as far as that takes no longer than others may wait. */
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
    const isShort = this.#log.isShort();
    const done: { readonly job: Job; readonly finish: () => void }[] = [];
    for (let job = this.#queue.shift(); job !== undefined; job = this.#queue.shift()) {
      try {
        const finish = job.run(batch);
        if (isShort && batch.isGrowing) throw new AppError("STORE_WRITE_FAILED", { reason: FULL });
        batch.keep();
        done.push({ job, finish });
      } catch (error) {
        batch.forget();
        job.reject(error);
      }
      if (batch.isFull) {
        break;
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

  /** Nobody sees anything of it before it is durable. */
  #commit(changes: readonly OwnChange[]): void {
    const last = changes.at(-1);
    if (last === undefined) {
      return;
    }
    const due = last.revision - this.#compacted > KEPT_REVISIONS + COMPACTION_STEP;
    const compacted = due ? last.revision - KEPT_REVISIONS : this.#compacted;
    this.#log.append(changes.map(toLogRow), due ? [this.#compacted, compacted] : undefined);
    this.#compacted = compacted;
    this.#revision = last.revision;
    changes.forEach((change) => {
      this.#apply(change);
    });
    this.#recent.add(changes);
    this.#followers.tell(changes);
  }

  #apply({ type, current, previous }: OwnChange): void {
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
 * Opens or makes a store; `:memory:` keeps nothing. A store whose last server was killed opens as it was at the last acknowledgement.
 * `onListenerError`: gets what a listener throws, which must not happen.
 * @throws AppError with STORE_UNUSABLE when it cannot be opened, is damaged, or another process has it.
 */
export function openStore(path: string, onListenerError: (error: unknown) => void): Store {
  return new SqliteStore(path, onListenerError);
}
