// SPDX-License-Identifier: Apache-2.0
// The file of the log: how it is opened and locked, its tables, and what older files are made into.
import { DatabaseSync } from "node:sqlite";
import { AppError, messageOf } from "@patchbay/core/errors";

/** In the head of the file, so that nothing else is taken for a store: "pBay". */
const APPLICATION_ID = 0x70_42_61_79;
const VERSION = 1;
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

function prepareTables(database: DatabaseSync): void {
  const version = Number(database.prepare("PRAGMA user_version").get()?.["user_version"] ?? 0);
  if (version > VERSION) {
    throw new Error(`it was written by a newer version (${String(version)})`);
  }
  if (version === VERSION) {
    // Nothing is written, so that a full disk does not keep a server from starting.
    return;
  }
  database.exec(TABLES);
  const old = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'log'").get();
  if (old !== undefined) {
    database.exec(FROM_VERSION_0);
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
