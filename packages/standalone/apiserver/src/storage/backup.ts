// SPDX-License-Identifier: Apache-2.0
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { AppError, isAppError, isSupportedFormat, messageOf, printFormat } from "@patchbay/base";
import { parseJson, printJson, textAt, valueAt } from "../objects/json.ts";
import { isKubeObject } from "../objects/object.ts";
import { type LogRow, RevisionLog } from "./revision-log.ts";
import { openStore } from "./sqlite-store.ts";
import type { Store } from "./store.ts";
import { extractStoredMetadata } from "./text-object.ts";

const FORMAT = { name: "patchbay-backup", version: 1 } as const;
/** Increase of the revision by a restore. Must exceed the number of writes since the backup, so that no revision is used twice. */
const REVISION_GAP = 1_000_000_000;

/** Yields a backup of the state at the time of the first line. The last line marks the backup as complete. */
export function* backupLines(store: Store): Generator<string> {
  const objects = store.buckets().flatMap((bucket) => store.list({ bucket }));
  yield `${printJson({ format: printFormat(FORMAT), revision: store.revision() })}\n`;
  for (const { address, revision, text } of objects) {
    yield `{"address":${printJson(address)},"revision":${String(revision)},"object":${text}}\n`;
  }
  yield `${printJson({ objects: objects.length })}\n`;
}

/** Returns the lines of a store that no server has open. @throws AppError with STORE_UNUSABLE */
export function backUpStore(storePath: string): string {
  const store = openStore(storePath, () => undefined);
  try {
    return [...backupLines(store)].join("");
  } finally {
    void store.close();
  }
}

function toRow(line: string): LogRow {
  const entry = parseJson(line);
  const object = valueAt(entry, "object");
  if (!isKubeObject(object)) {
    throw new TypeError("a line has no object");
  }
  const parts = ["bucket", "namespace", "name"].map((part) => textAt(entry, "address", part));
  return {
    revision: Number(valueAt(entry, "revision")),
    key: parts.join("/"),
    isDeleted: false,
    previousRevision: 0,
    metadata: extractStoredMetadata(object),
    text: printJson(object),
  };
}

interface BackupFile {
  readonly path: string;
  readonly text: string;
}

function readBackup({ path, text }: BackupFile): {
  readonly revision: number;
  readonly rows: readonly LogRow[];
} {
  const [firstLine = "", ...lines] = text.split("\n").filter((line) => line !== "");
  const header = parseJson(firstLine);
  if (!isSupportedFormat(textAt(header, "format"), path, FORMAT))
    throw new TypeError(`its first line is not ${FORMAT.name}`);
  const trailer = lines.pop() ?? "{}";
  if (valueAt(parseJson(trailer), "objects") !== lines.length) {
    throw new TypeError("its last line is missing");
  }
  return { revision: Number(valueAt(header, "revision")), rows: lines.map(toRow) };
}

interface Restored {
  readonly objects: number;
  readonly revision: number;
}

function replaceObjects(path: string, content: ReturnType<typeof readBackup>): Restored {
  const log = new RevisionLog(path);
  try {
    const revision = Math.max(log.lastRevision(), content.revision) + REVISION_GAP;
    log.replace(content.rows, revision);
    return { objects: content.rows.length, revision };
  } finally {
    log.close();
  }
}

function removeStore(path: string): void {
  for (const suffix of ["", "-wal", "-shm", ".reserve"])
    rmSync(`${path}${suffix}`, { force: true });
}

function syncDirectory(path: string): void {
  const directory = openSync(path, "r");
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** Creates a store that exists only when it is complete, so that a restore which failed or lost power can be repeated. */
function createStore(path: string, content: ReturnType<typeof readBackup>): Restored {
  const temporary = `${path}.restoring`;
  removeStore(temporary);
  try {
    const restored = replaceObjects(temporary, content);
    // SQLite keeps the log of writes, without an error, if it cannot write them into the database when it closes it.
    if (existsSync(`${temporary}-wal`)) throw new AppError("STORE_FULL");
    removeStore(path); // SQLite would apply the log of an earlier store.
    renameSync(temporary, path);
    syncDirectory(dirname(path));
    return restored;
  } finally {
    removeStore(temporary);
  }
}

/**
 * Replaces all objects of a store with those of the backup. No server may have the store open. Compacts earlier revisions, so that clients
 * list again instead of resuming watches.
 * @throws AppError with STORE_BACKUP_INVALID, FORMAT_TOO_NEW, STORE_UNUSABLE, STORE_FULL or STORE_WRITE_FAILED, without changes
 */
export function restoreStore(storePath: string, backup: BackupFile): Restored {
  let content: ReturnType<typeof readBackup>;
  try {
    content = readBackup(backup);
  } catch (error) {
    if (isAppError(error)) throw error;
    const details = { path: backup.path, reason: messageOf(error) };
    throw new AppError("STORE_BACKUP_INVALID", details, { cause: error });
  }
  return existsSync(storePath)
    ? replaceObjects(storePath, content)
    : createStore(storePath, content);
}
