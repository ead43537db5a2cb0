// SPDX-License-Identifier: Apache-2.0
// Reads files that another process appends to and rotates.
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  rmSync,
  watch,
  writeSync,
} from "node:fs";
import { type FileHandle, open, readFile, rename, stat } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { messageOf } from "@patchbay/base";
import { errnoOf, isMissing, toFileError } from "./file-errors.ts";

export interface GrowingFile {
  /** Reads at most `bytesMax` bytes from `position`. Returns an empty buffer at the end of the file. */
  read(position: number, bytesMax: number): Promise<Buffer>;
  readSize(): Promise<number>;
  isReplacedAt(path: string): Promise<boolean>;
  close(): Promise<void>;
}

async function readInode(path: string): Promise<bigint | undefined> {
  try {
    return (await stat(path, { bigint: true })).ino;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw toFileError(error, "stat", path);
  }
}

async function readSize(handle: FileHandle, path: string): Promise<number> {
  try {
    return (await handle.stat()).size;
  } catch (error) {
    throw toFileError(error, "stat", path);
  }
}

async function readAt(
  handle: FileHandle,
  path: string,
  range: { readonly position: number; readonly bytesMax: number },
): Promise<Buffer> {
  try {
    const buffer = Buffer.allocUnsafe(range.bytesMax);
    const { bytesRead } = await handle.read(buffer, 0, range.bytesMax, range.position);
    return buffer.subarray(0, bytesRead);
  } catch (error) {
    throw toFileError(error, "read", path);
  }
}

/** Opens a file. Returns undefined if the file does not exist. @throws AppError with OS_FILE_FAILED */
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
    readSize: () => readSize(handle, path),
    isReplacedAt: async (currentPath) => {
      const inode = await readInode(currentPath);
      return inode !== undefined && inode !== ino;
    },
    close: () => handle.close(),
  };
}

/** Watches a file for changes and renames. Its directory must exist. @throws AppError with OS_FILE_FAILED */
export function watchFile(path: string, onChange: () => void, signal: AbortSignal): void {
  if (signal.aborted) return;
  const fileName = basename(path);
  try {
    const watcher = watch(dirname(path), (_event, name) => {
      if (name === fileName) onChange();
    });
    watcher.on("error", onChange);
    signal.addEventListener("abort", () => {
      watcher.close();
    });
  } catch (error) {
    throw toFileError(error, "watch", path);
  }
}

/** Returns the size in bytes. Returns undefined if the file does not exist. @throws AppError with OS_FILE_FAILED */
export async function readFileSize(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw toFileError(error, "stat", path);
  }
}

/** Renames a file and replaces an existing target. @throws AppError with OS_FILE_FAILED */
export async function renameFile(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    throw toFileError(error, "rename", from);
  }
}

async function findLine(file: string, prefix: string): Promise<string | undefined> {
  try {
    const text = await readFile(file, "utf8");
    // The text after the last line break is an incomplete line.
    return text
      .split("\n")
      .slice(0, -1)
      .find((line) => line.startsWith(prefix));
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw toFileError(error, "read", file);
  }
}

/** Waits for the first line that begins with `prefix`. The file need not exist, but its directory must exist. */
export async function waitForLine(
  file: string,
  prefix: string,
  signal: AbortSignal,
): Promise<string> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const check = (): void => {
    findLine(file, prefix).then((line) => {
      if (line !== undefined) resolve(line);
    }, reject);
  };
  const watcher = watch(dirname(file), (_event, name) => {
    if (name === basename(file)) check();
  });
  const onAbort = (): void => {
    reject(signal.reason instanceof Error ? signal.reason : new Error(messageOf(signal.reason)));
  };
  watcher.on("error", reject);
  signal.addEventListener("abort", onAbort);
  check();
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
    watcher.close();
  }
}

const COPY_BYTES = 1024 * 1024;
const LOG_MODE = 0o640;

function writeAll(fd: number, bytes: Buffer): void {
  for (let written = 0; written < bytes.length;) {
    written += writeSync(fd, bytes, written, bytes.length - written);
  }
}

/**
 * Moves the last `bytesMax` bytes of a file to `target`, while other processes append to the file. Blocks this thread, so that no other
 * call delays the truncation. Only lines are lost that are appended within microseconds before it, or behind another `bytesMax` bytes
 * during the copy. @throws AppError with OS_FILE_FAILED, without changes
 */
export function moveContent(path: string, target: string, bytesMax: number): void {
  let from: number | undefined;
  let to: number | undefined;
  try {
    from = openSync(path, "r+");
    to = openSync(target, "w", LOG_MODE);
    const buffer = Buffer.allocUnsafe(COPY_BYTES);
    const { size } = fstatSync(from);
    const end = size + bytesMax; // Otherwise a writer as fast as this copy would block the thread without bound.
    let position = Math.max(0, size - bytesMax);
    for (let count = -1; count !== 0; position += count) {
      count = readSync(from, buffer, 0, Math.min(COPY_BYTES, end - position), position);
      writeAll(to, buffer.subarray(0, count));
    }
    ftruncateSync(from, 0);
  } catch (error) {
    if (to !== undefined) rmSync(target);
    throw toFileError(error, "move", path);
  } finally {
    for (const fd of [from, to]) if (fd !== undefined) closeSync(fd);
  }
}
