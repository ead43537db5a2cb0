// SPDX-License-Identifier: Apache-2.0
// The file of the log: how it is opened and locked, its tables, and what older files are made into.
import { DatabaseSync } from "node:sqlite";
import { AppError, messageOf } from "@patchbay/core/errors";

/** In the head of the file, so that nothing else is taken for a store: "pBay". */
export const APPLICATION_ID = 0x70_42_61_79;
const VERSION = 1;
/** Revisions between the last one of a backup and the first one after it is restored: more than can have been handed out in between. */
const RESTORE_GAP = 1_000_000_000;
/** A lock that is held so long is held by another server, milliseconds. */
const LOCK_WAIT_MS = 2000;

// The facts stand before the text, so that SQLite reads them without it.
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

/** Version 0 had a table without facts. */
const FROM_VERSION_0 = `
  INSERT INTO revisions SELECT revision, key, deleted, previous,
    coalesce(text ->> '$.metadata.uid', ''),
    coalesce((SELECT group_concat(value ->> '$.uid', ' ') FROM json_each(text, '$.metadata.ownerReferences')), ''),
    text ->> '$.metadata.deletionTimestamp' IS NOT NULL,
    text
  FROM log;
  DROP TABLE log;
`;

/** A file that was made by a backup says so until it is opened: no revision that clients saw since may come again. */
const AFTER_RESTORE = `
  UPDATE marks SET revision = ${String(RESTORE_GAP)} + (SELECT max(revision) FROM (
    SELECT revision FROM marks WHERE name IN ('last', 'backup')
    UNION ALL SELECT max(revision) FROM revisions)) WHERE name = 'last';
  UPDATE marks SET revision = (SELECT revision FROM marks WHERE name = 'last') WHERE name = 'compacted';
  DELETE FROM marks WHERE name = 'backup';
`;

function exists(database: DatabaseSync, query: string): boolean {
  return database.prepare(query).get() !== undefined;
}

function prepareTables(database: DatabaseSync): void {
  const version = Number(database.prepare("PRAGMA user_version").get()?.["user_version"] ?? 0);
  if (version > VERSION) {
    throw new Error(`it was written by a newer version (${String(version)})`);
  }
  database.exec(TABLES);
  if (exists(database, "SELECT 1 FROM sqlite_schema WHERE name = 'log'")) {
    database.exec(FROM_VERSION_0);
  }
  if (exists(database, "SELECT 1 FROM marks WHERE name = 'backup'")) {
    database.exec(AFTER_RESTORE);
  }
}

/**
 * Opens or makes the file and locks it until this process ends, however it ends.
 * @throws AppError with STORE_UNUSABLE
 */
export function openDatabase(path: string): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path, { timeout: LOCK_WAIT_MS });
    database.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL");
    database.exec("PRAGMA synchronous = FULL; BEGIN IMMEDIATE");
    prepareTables(database);
    database.exec("COMMIT");
    return database;
  } catch (error) {
    database?.close();
    throw new AppError("STORE_UNUSABLE", { path, reason: messageOf(error) }, { cause: error });
  }
}

/** Marks the file of a backup, so that opening it as a store begins at revisions that nobody has seen. */
export function markAsBackup(path: string): void {
  const database = new DatabaseSync(path);
  try {
    database.exec(
      "PRAGMA journal_mode = DELETE; INSERT OR REPLACE INTO marks SELECT 'backup', max(revision) FROM marks",
    );
  } finally {
    database.close();
  }
}
