// SPDX-License-Identifier: Apache-2.0
// How is a file read that somebody else still writes, moves away and makes anew?
import { watch } from "node:fs";
import { open, rename, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { isMissing, toFileError } from "./file-errors.ts";

/** A file that is open for reading; it stays the same file when it is renamed or removed. */
export interface GrowingFile {
  /** At most `bytesMax` from `position` on; empty at the present end. */
  read(position: number, bytesMax: number): Promise<Buffer>;
  /** Whether `path` names another file by now; false while it names none. */
  isReplacedAt(path: string): Promise<boolean>;
  close(): Promise<void>;
}

async function inodeAt(path: string): Promise<bigint | undefined> {
  try {
    return (await stat(path, { bigint: true })).ino;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw toFileError(error, "stat", path);
  }
}

async function readAt(
  handle: FileHandle,
  path: string,
  place: { readonly position: number; readonly bytesMax: number },
): Promise<Buffer> {
  try {
    const buffer = Buffer.allocUnsafe(place.bytesMax);
    const { bytesRead } = await handle.read(buffer, 0, place.bytesMax, place.position);
    return buffer.subarray(0, bytesRead);
  } catch (error) {
    throw toFileError(error, "read", path);
  }
}

/**
 * Opens a file that grows; undefined when it is not there.
 * @throws AppError with OS_FILE_FAILED, also of its methods
 */
export async function openGrowingFile(path: string): Promise<GrowingFile | undefined> {
  let handle: FileHandle;
  try {
    handle = await open(path, "r");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw toFileError(error, "open", path);
  }
  const { ino } = await handle.stat({ bigint: true });
  return {
    read: (position, bytesMax) => readAt(handle, path, { position, bytesMax }),
    isReplacedAt: async (other) => {
      const inode = await inodeAt(other);
      return inode !== undefined && inode !== ino;
    },
    close: () => handle.close(),
  };
}

/**
 * Calls `changed` after each change of what is in a file (inotify), and when it comes, goes or is renamed, until
 * aborted; changes that come close together may be told once. Its directory must be there.
 * @throws AppError with OS_FILE_FAILED when it cannot be watched.
 */
export function watchFile(path: string, changed: () => void, signal: AbortSignal): void {
  if (signal.aborted) return;
  const wanted = basename(path);
  try {
    const watcher = watch(dirname(path), (_event, name) => {
      if (name === wanted) changed();
    });
    watcher.on("error", changed);
    signal.addEventListener("abort", () => {
      watcher.close();
    });
  } catch (error) {
    throw toFileError(error, "watch", path);
  }
}

/**
 * Size of a file in bytes; undefined when it is not there.
 * @throws AppError with OS_FILE_FAILED
 */
export async function sizeOfFile(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw toFileError(error, "stat", path);
  }
}

/**
 * Gives a file another name in place of what has that name.
 * @throws AppError with OS_FILE_FAILED
 */
export async function renameFile(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    throw toFileError(error, "rename", from);
  }
}
