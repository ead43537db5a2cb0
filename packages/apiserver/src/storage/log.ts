// SPDX-License-Identifier: Apache-2.0
// The log of revisions in SQLite: what is written here is durable when the call returns.
import { DatabaseSync, type SQLOutputValue, type StatementSync } from "node:sqlite";
import { AppError, messageOf } from "@patchbay/core/errors";

/** One row: the state of one key from `revision` on. */
export interface LogRow {
  readonly revision: number;
  readonly key: string;
  readonly deleted: boolean;
  /** Revision of the state before; 0 where there was none. */
  readonly previous: number;
  readonly text: string;
}

/** One row together with the text of the state before. */
export interface LogChange extends LogRow {
  readonly previousText: string | undefined;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS log (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    text TEXT NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS log_key ON log (key, revision);
  CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, revision INTEGER NOT NULL) STRICT;
  INSERT OR IGNORE INTO marks VALUES ('compacted', 0), ('last', 0);
`;

const LATEST = `SELECT max(revision) FROM log WHERE key >= ? AND key < ? AND revision <= ? GROUP BY key`;

/** A table row as SQLite gives it. */
type Row = Record<string, SQLOutputValue>;

function toRow(row: Row): LogRow {
  return {
    revision: Number(row["revision"]),
    key: String(row["key"]),
    deleted: row["deleted"] === 1,
    previous: Number(row["previous"]),
    text: String(row["text"]),
  };
}

function openDatabase(path: string): DatabaseSync {
  try {
    const database = new DatabaseSync(path);
    database.exec(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 2000",
    );
    // One server for one store: the lock is kept until the process ends, however it ends.
    database.exec("PRAGMA locking_mode = EXCLUSIVE");
    database.exec(`BEGIN IMMEDIATE; ${SCHEMA}; COMMIT`);
    return database;
  } catch (error) {
    throw new AppError("STORE_UNUSABLE", { path, reason: messageOf(error) }, { cause: error });
  }
}

/** The log. All calls are synchronous; a failed append leaves nothing. */
export class RevisionLog {
  readonly #database: DatabaseSync;
  readonly #insert: StatementSync;
  readonly #mark: StatementSync;

  /**
   * Opens or makes the log; `:memory:` keeps nothing.
   * @throws AppError with STORE_UNUSABLE
   */
  constructor(path: string) {
    this.#database = openDatabase(path);
    this.#insert = this.#database.prepare("INSERT INTO log VALUES (?, ?, ?, ?, ?)");
    this.#mark = this.#database.prepare("UPDATE marks SET revision = ? WHERE name = ?");
  }

  /** The highest revision that was ever committed. */
  lastRevision(): number {
    const row = this.#database
      .prepare(
        "SELECT max((SELECT revision FROM marks WHERE name = 'last'), (SELECT coalesce(max(revision), 0) FROM log)) AS last",
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
   * Appends rows in one durable transaction.
   * @throws AppError with STORE_WRITE_FAILED
   */
  append(rows: readonly LogRow[]): void {
    this.#transact(() => {
      for (const row of rows) {
        this.#insert.run(row.revision, row.key, row.deleted ? 1 : 0, row.previous, row.text);
      }
    });
  }

  /** Latest states of the keys from `from` to before `to`, as of a revision, sorted by key. */
  readStates(from: string, to: string, revision: number): LogRow[] {
    return this.#database
      .prepare(`SELECT * FROM log WHERE revision IN (${LATEST}) AND deleted = 0 ORDER BY key`)
      .all(from, to, revision)
      .map(toRow);
  }

  /** Rows after a revision, in order, for keys from `from` to before `to`. */
  readChanges(from: string, to: string, revision: number): LogChange[] {
    return this.#database
      .prepare(
        `SELECT log.*, before.text AS previousText FROM log LEFT JOIN log AS before ON before.revision = log.previous
         WHERE log.revision > ? AND log.key >= ? AND log.key < ? ORDER BY log.revision`,
      )
      .all(revision, from, to)
      .map((row) => ({
        ...toRow(row),
        previousText: typeof row["previousText"] === "string" ? row["previousText"] : undefined,
      }));
  }

  /** Forgets what was superseded at or before a revision. */
  compact(revision: number): void {
    this.#transact(() => {
      this.#mark.run(this.lastRevision(), "last");
      this.#mark.run(revision, "compacted");
      this.#database
        .prepare(
          "DELETE FROM log WHERE revision <= ?1 AND (deleted = 1 OR revision IN (SELECT previous FROM log WHERE revision <= ?1))",
        )
        .run(revision);
    });
  }

  close(): void {
    this.#database.close();
  }

  #transact(work: () => void): void {
    try {
      this.#database.exec("BEGIN IMMEDIATE");
      work();
      this.#database.exec("COMMIT");
    } catch (error) {
      if (this.#database.isTransaction) {
        this.#database.exec("ROLLBACK");
      }
      throw new AppError("STORE_WRITE_FAILED", { reason: messageOf(error) }, { cause: error });
    }
  }
}
