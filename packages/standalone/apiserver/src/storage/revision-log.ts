// SPDX-License-Identifier: Apache-2.0
// Log of revisions in SQLite. A write is durable when the call returns.
import { type SQLOutputValue, type StatementSync, DatabaseSync } from "node:sqlite";
import { AppError, checkFormat, isAppError, messageOf } from "@patchbay/base";
import { type Reserve, openReserve } from "./reserve.ts";
import type { StoredMetadata } from "./store.ts";

/** `pBay` in ASCII, which identifies a store in the file header. */
const APPLICATION_ID = 0x70_42_61_79;
const VERSION = 1;
/** Maximum time to wait for the lock. A lock that lasts longer means that another server uses the database. */
const LOCK_WAIT_MS = 2000;

// The text is the last column, so that SQLite can read the other columns without it.
const TABLES = `
  CREATE TABLE IF NOT EXISTS revisions (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    uid TEXT NOT NULL,
    owners TEXT NOT NULL,
    deleting INTEGER NOT NULL,
    text TEXT NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS revisions_key ON revisions (key, revision);
  CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, revision INTEGER NOT NULL) STRICT;
  INSERT OR IGNORE INTO marks VALUES ('compacted', 0), ('last', 0);
  PRAGMA application_id = ${String(APPLICATION_ID)};
  PRAGMA user_version = ${String(VERSION)};
`;

/** Migration from version 0, which did not have the columns uid, owners and deleting. */
const MIGRATE_FROM_VERSION_0 = `
  INSERT INTO revisions SELECT revision, key, deleted, previous,
    coalesce(text ->> '$.metadata.uid', ''),
    coalesce((SELECT group_concat(value ->> '$.uid', ' ') FROM json_each(text, '$.metadata.ownerReferences')), ''),
    text ->> '$.metadata.deletionTimestamp' IS NOT NULL,
    text
  FROM log;
  DROP TABLE log;
`;

function prepareTables(database: DatabaseSync, path: string): void {
  const version = Number(database.prepare("PRAGMA user_version").get()?.["user_version"] ?? 0);
  checkFormat(path, version, VERSION);
  if (version === VERSION) {
    // Does not write, so that the server starts on a full disk.
    return;
  }
  database.exec(TABLES);
  const oldTable = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'log'").get();
  if (oldTable !== undefined) {
    database.exec(MIGRATE_FROM_VERSION_0);
  }
}

/** Opens the database, and locks it until it is closed. @throws AppError with STORE_UNUSABLE, FORMAT_TOO_NEW */
function openDatabase(path: string): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path, { timeout: LOCK_WAIT_MS });
    database.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL");
    database.exec("PRAGMA synchronous = FULL; BEGIN IMMEDIATE");
    prepareTables(database, path);
    database.exec("COMMIT");
    return database;
  } catch (error) {
    database?.close();
    if (isAppError(error)) throw error;
    throw new AppError("STORE_UNUSABLE", { path, reason: messageOf(error) }, { cause: error });
  }
}

interface LogEntry {
  readonly revision: number;
  readonly key: string;
  readonly metadata: StoredMetadata;
}

export interface LogRow extends LogEntry {
  readonly isDeleted: boolean;
  /** Revision of the previous state; 0 for a new object. */
  readonly previousRevision: number;
  readonly text: string;
}

export interface LogChange extends LogRow {
  readonly previousText: string | undefined;
}

/** First key of the range, and first key after the range. */
export type KeyRange = readonly [from: string, to: string];

const SELECT_LATEST = `SELECT key, max(revision) AS revision FROM revisions WHERE key >= ? AND key < ? AND revision <= ? GROUP BY key`;

/** Statements that compact the revisions after ?1 up to ?2: delete the states that these revisions replaced, then the deletion records. */
const COMPACT_STATEMENTS = [
  "DELETE FROM revisions WHERE revision IN (SELECT previous FROM revisions WHERE revision > ?1 AND revision <= ?2 AND previous > 0)",
  "DELETE FROM revisions WHERE revision > ?1 AND revision <= ?2 AND deleted = 1",
];

/** Error code of a full disk. Source: SQLite, SQLITE_FULL. */
const DISK_FULL = 13;

function isDiskFull(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === DISK_FULL;
}

function openReserveOrFail(path: string, database: DatabaseSync): Reserve {
  try {
    return openReserve(path);
  } catch (error) {
    database.close();
    throw new AppError("STORE_UNUSABLE", { path, reason: messageOf(error) }, { cause: error });
  }
}

type Row = Record<string, SQLOutputValue>;

function toStoredMetadata(row: Row): StoredMetadata {
  const owners = String(row["owners"]);
  return {
    uid: String(row["uid"]),
    owners: owners === "" ? [] : owners.split(" "),
    isDeleting: row["deleting"] === 1,
  };
}

function toEntry(row: Row): LogEntry {
  return {
    revision: Number(row["revision"]),
    key: String(row["key"]),
    metadata: toStoredMetadata(row),
  };
}

function toChange(row: Row): LogChange {
  const { previousText } = row;
  return {
    ...toEntry(row),
    isDeleted: row["deleted"] === 1,
    previousRevision: Number(row["previous"]),
    text: String(row["text"]),
    previousText: typeof previousText === "string" ? previousText : undefined,
  };
}

/** Log of revisions. All calls are synchronous. A failed append changes nothing. */
export class RevisionLog {
  readonly #database: DatabaseSync;
  readonly #reserve: Reserve;
  readonly #insert: StatementSync;
  readonly #selectText: StatementSync;
  readonly #selectStates: StatementSync;
  readonly #selectChanges: StatementSync;
  readonly #compactStatements: readonly StatementSync[];
  readonly #updateMark: StatementSync;

  /** Opens the log. `:memory:` persists nothing. @throws AppError with STORE_UNUSABLE, FORMAT_TOO_NEW */
  constructor(path: string) {
    const database = openDatabase(path);
    this.#database = database;
    this.#reserve = openReserveOrFail(path, database);
    this.#insert = database.prepare("INSERT INTO revisions VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    this.#selectText = database.prepare("SELECT text FROM revisions WHERE revision = ?");
    this.#selectStates = database.prepare(
      `SELECT revision, key, uid, owners, deleting FROM (${SELECT_LATEST}) JOIN revisions USING (key, revision) WHERE deleted = 0 ORDER BY key`,
    );
    this.#selectChanges = database.prepare(
      `SELECT it.*, before.text AS previousText FROM revisions AS it LEFT JOIN revisions AS before ON before.revision = it.previous
       WHERE it.revision > ? AND it.key >= ? AND it.key < ? ORDER BY it.revision LIMIT ?`,
    );
    this.#compactStatements = COMPACT_STATEMENTS.map((statement) => database.prepare(statement));
    this.#updateMark = database.prepare("UPDATE marks SET revision = ? WHERE name = ?");
  }

  /** Tries to refill the reserve. Returns true if space remains short. If so, the caller must reject writes that add or enlarge objects. */
  isDiskShort(): boolean {
    if (!this.#reserve.isFullSize) this.#reserve.refill();
    return !this.#reserve.isFullSize;
  }

  lastRevision(): number {
    const row = this.#database
      .prepare(
        "SELECT max((SELECT revision FROM marks WHERE name = 'last'), (SELECT coalesce(max(revision), 0) FROM revisions)) AS last",
      )
      .get();
    return Number(row?.["last"] ?? 0);
  }

  compactedRevision(): number {
    const row = this.#database.prepare("SELECT revision FROM marks WHERE name = 'compacted'").get();
    return Number(row?.["revision"] ?? 0);
  }

  /** Appends rows and compacts `compactRange`, in one durable transaction. @throws AppError with STORE_FULL, STORE_WRITE_FAILED */
  append(rows: readonly LogRow[], compactRange?: readonly [after: number, upTo: number]): void {
    this.#runTransaction(() => {
      rows.forEach((row) => {
        this.#write(row);
      });
      if (compactRange !== undefined) {
        this.#compactStatements.forEach((statement) => statement.run(...compactRange));
        this.#updateMark.run(compactRange[1], "compacted");
      }
    });
  }

  /** Replaces all rows. Marks all revisions up to `revision` as compacted. @throws AppError with STORE_FULL, STORE_WRITE_FAILED */
  replace(rows: Iterable<LogRow>, revision: number): void {
    this.#runTransaction(() => {
      this.#database.exec("DELETE FROM revisions");
      for (const row of rows) {
        this.#write(row);
      }
      this.#updateMark.run(revision, "last");
      this.#updateMark.run(revision, "compacted");
    });
  }

  readText(revision: number): string {
    const row = this.#selectText.get(revision);
    if (row === undefined) {
      throw new RangeError(`revision ${String(revision)} is compacted`);
    }
    return String(row["text"]);
  }

  readStates([from, to]: KeyRange, revision: number): LogEntry[] {
    return this.#selectStates.all(from, to, revision).map(toEntry);
  }

  /** Returns rows after a revision. Stops after `limit` rows, or when their texts together exceed `length` characters. */
  readChanges(
    [from, to]: KeyRange,
    revision: number,
    limits: { readonly limit: number; readonly length: number },
  ): LogChange[] {
    const changes: LogChange[] = [];
    let length = 0;
    for (const row of this.#selectChanges.iterate(revision, from, to, limits.limit)) {
      const change = toChange(row);
      changes.push(change);
      length += change.text.length;
      if (length > limits.length) {
        break;
      }
    }
    return changes;
  }

  close(): void {
    this.#database.close();
    this.#reserve.close();
  }

  /** Runs the transaction. On a full disk, retries as long as the reserve can free space. */
  #runTransaction(work: () => void): void {
    try {
      while (!this.#tryTransaction(work)) {
        // The reserve has freed space.
      }
    } catch (error) {
      if (isDiskFull(error)) throw new AppError("STORE_FULL", {}, { cause: error });
      throw new AppError("STORE_WRITE_FAILED", { reason: messageOf(error) }, { cause: error });
    }
  }

  /** Returns false if the disk was full but the reserve has freed space, so that the caller can retry. */
  #tryTransaction(work: () => void): boolean {
    try {
      this.#database.exec("BEGIN IMMEDIATE");
      work();
      this.#database.exec("COMMIT");
      return true;
    } catch (error) {
      if (this.#database.isTransaction) {
        this.#database.exec("ROLLBACK");
      }
      if (isDiskFull(error) && this.#reserve.release()) return false;
      throw error;
    }
  }

  #write({ revision, key, isDeleted, previousRevision, metadata, text }: LogRow): void {
    const { uid, owners, isDeleting } = metadata;
    const flags = [isDeleted, isDeleting].map(Number) as [number, number];
    this.#insert.run(
      revision,
      key,
      flags[0],
      previousRevision,
      uid,
      owners.join(" "),
      flags[1],
      text,
    );
  }
}
