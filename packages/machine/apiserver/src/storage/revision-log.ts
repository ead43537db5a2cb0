// SPDX-License-Identifier: Apache-2.0
// The log of revisions in SQLite: what is written here is durable when the call returns.
import type { DatabaseSync, SQLOutputValue, StatementSync } from "node:sqlite";
import { AppError, messageOf } from "@patchbay/core/errors";
import { openDatabase } from "./database.ts";
import { openReserve, type Reserve } from "./reserve.ts";
import type { StoredFacts } from "./store.ts";

/** One row without its text: the state of one key from `revision` on. */
export interface LogEntry {
  readonly revision: number;
  readonly key: string;
  readonly facts: StoredFacts;
}

/** A state as it is written: what it follows, and its text. */
export interface LogRow extends LogEntry {
  readonly deleted: boolean;
  /** Revision of the state before; 0 where there was none. */
  readonly previous: number;
  readonly text: string;
}

/** One row together with the text of the state before. */
export interface LogChange extends LogRow {
  readonly previousText: string | undefined;
}

/** Keys from `from` to before `to`. */
export type KeyRange = readonly [from: string, to: string];

const LATEST = `SELECT key, max(revision) AS revision FROM revisions WHERE key >= ? AND key < ? AND revision <= ? GROUP BY key`;

/** Everything that superseded something up to a revision takes it along, and deletions go too. */
const COMPACT = [
  "DELETE FROM revisions WHERE revision IN (SELECT previous FROM revisions WHERE revision > ?1 AND revision <= ?2 AND previous > 0)",
  "DELETE FROM revisions WHERE revision > ?1 AND revision <= ?2 AND deleted = 1",
];

/** Source: SQLite, SQLITE_FULL. */
const DISK_FULL = 13;

function isDiskFull(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === DISK_FULL;
}

function openReserveOf(path: string, database: DatabaseSync): Reserve {
  try {
    return openReserve(path);
  } catch (error) {
    database.close();
    throw new AppError("STORE_UNUSABLE", { path, reason: messageOf(error) }, { cause: error });
  }
}

/** A table row as SQLite gives it. */
type Row = Record<string, SQLOutputValue>;

function toFacts(row: Row): StoredFacts {
  const owners = String(row["owners"]);
  return {
    uid: String(row["uid"]),
    owners: owners === "" ? [] : owners.split(" "),
    deleting: row["deleting"] === 1,
  };
}

function toEntry(row: Row): LogEntry {
  return { revision: Number(row["revision"]), key: String(row["key"]), facts: toFacts(row) };
}

function toChange(row: Row): LogChange {
  const { previousText } = row;
  return {
    ...toEntry(row),
    deleted: row["deleted"] === 1,
    previous: Number(row["previous"]),
    text: String(row["text"]),
    previousText: typeof previousText === "string" ? previousText : undefined,
  };
}

/** The log. All calls are synchronous; a failed append leaves nothing. */
export class RevisionLog {
  readonly #database: DatabaseSync;
  readonly #reserve: Reserve;
  readonly #insert: StatementSync;
  readonly #text: StatementSync;
  readonly #states: StatementSync;
  readonly #changes: StatementSync;
  readonly #compact: readonly StatementSync[];
  readonly #mark: StatementSync;

  /**
   * Opens or makes the log; `:memory:` keeps nothing.
   * @throws AppError with STORE_UNUSABLE
   */
  constructor(path: string) {
    const database = openDatabase(path);
    this.#database = database;
    this.#reserve = openReserveOf(path, database);
    this.#insert = database.prepare("INSERT INTO revisions VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    this.#text = database.prepare("SELECT text FROM revisions WHERE revision = ?");
    this.#states = database.prepare(
      `SELECT revision, key, uid, owners, deleting FROM (${LATEST}) JOIN revisions USING (key, revision) WHERE deleted = 0 ORDER BY key`,
    );
    this.#changes = database.prepare(
      `SELECT it.*, before.text AS previousText FROM revisions AS it LEFT JOIN revisions AS before ON before.revision = it.previous
       WHERE it.revision > ? AND it.key >= ? AND it.key < ? ORDER BY it.revision LIMIT ?`,
    );
    this.#compact = COMPACT.map((statement) => database.prepare(statement));
    this.#mark = database.prepare("UPDATE marks SET revision = ? WHERE name = ?");
  }

  /** Whether the disk was full and still is: what is left of the reserve is for what makes nothing larger. */
  isShort(): boolean {
    if (!this.#reserve.isWhole) this.#reserve.refill();
    return !this.#reserve.isWhole;
  }

  /** The highest revision that was ever committed. */
  lastRevision(): number {
    const row = this.#database
      .prepare(
        "SELECT max((SELECT revision FROM marks WHERE name = 'last'), (SELECT coalesce(max(revision), 0) FROM revisions)) AS last",
      )
      .get();
    return Number(row?.["last"] ?? 0);
  }

  /** Changes up to this revision can no longer be told. */
  compactedRevision(): number {
    const row = this.#database.prepare("SELECT revision FROM marks WHERE name = 'compacted'").get();
    return Number(row?.["revision"] ?? 0);
  }

  /**
   * Appends rows in one durable transaction, and in the same forgets what was superseded after `compact[0]` and up to `compact[1]`.
   * @throws AppError with STORE_WRITE_FAILED
   */
  append(rows: readonly LogRow[], compact?: readonly [after: number, upTo: number]): void {
    this.#transact(() => {
      rows.forEach((row) => {
        this.#write(row);
      });
      if (compact !== undefined) {
        this.#compact.forEach((statement) => statement.run(...compact));
        this.#mark.run(compact[1], "compacted");
      }
    });
  }

  /**
   * Replaces everything by current states, in one durable transaction. The next revision comes after `revision`, and nothing before it can be told.
   * @throws AppError with STORE_WRITE_FAILED
   */
  replace(rows: Iterable<LogRow>, revision: number): void {
    this.#transact(() => {
      this.#database.exec("DELETE FROM revisions");
      for (const row of rows) {
        this.#write(row);
      }
      this.#mark.run(revision, "last");
      this.#mark.run(revision, "compacted");
    });
  }

  /** The text of a row that must be there: current, or not older than what is kept. */
  readText(revision: number): string {
    const row = this.#text.get(revision);
    if (row === undefined) {
      throw new RangeError(`revision ${String(revision)} is compacted`);
    }
    return String(row["text"]);
  }

  /** Latest states of keys, as of a revision, sorted by key. */
  readStates([from, to]: KeyRange, revision: number): LogEntry[] {
    return this.#states.all(from, to, revision).map(toEntry);
  }

  /** The first rows after a revision, in order, at most `limit`, or `length` characters and one. */
  readChanges(
    [from, to]: KeyRange,
    revision: number,
    most: { readonly limit: number; readonly length: number },
  ): LogChange[] {
    const changes: LogChange[] = [];
    let length = 0;
    for (const row of this.#changes.iterate(revision, from, to, most.limit)) {
      const change = toChange(row);
      changes.push(change);
      length += change.text.length;
      if (length > most.length) {
        break;
      }
    }
    return changes;
  }

  close(): void {
    this.#database.close();
    this.#reserve.close();
  }

  /** On a full disk again and again, as long as the reserve has anything to let go. */
  #transact(work: () => void): void {
    try {
      while (!this.#fits(work)) {
        // It fits, or there is nothing left.
      }
    } catch (error) {
      throw new AppError("STORE_WRITE_FAILED", { reason: messageOf(error) }, { cause: error });
    }
  }

  /** Whether it is done; if not, the disk is less full now. */
  #fits(work: () => void): boolean {
    try {
      this.#database.exec("BEGIN IMMEDIATE");
      work();
      this.#database.exec("COMMIT");
      return true;
    } catch (error) {
      if (this.#database.isTransaction) {
        this.#database.exec("ROLLBACK");
      }
      if (isDiskFull(error) && this.#reserve.letGo()) return false;
      throw error;
    }
  }

  #write({ revision, key, deleted, previous, facts, text }: LogRow): void {
    const { uid, owners, deleting } = facts;
    const flags = [deleted, deleting].map(Number) as [number, number];
    this.#insert.run(revision, key, flags[0], previous, uid, owners.join(" "), flags[1], text);
  }
}
