// SPDX-License-Identifier: Apache-2.0
// Reads, writes and watches files. Writes are atomic: after a crash, either the old or the new file exists.
import { createWriteStream, type FSWatcher, statSync, watch } from "node:fs";
import {
  chmod,
  copyFile,
  type FileHandle,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  statfs,
} from "node:fs/promises";
import { dirname } from "node:path";
import type { Writable } from "node:stream";
import type { Files } from "@patchbay/core/interfaces";
import { osNative } from "../native.ts";
import { errnoOf, isMissing, toFileError } from "./file-errors.ts";

const FILE_MODE = 0o644;
const DIRECTORY_MODE = 0o755;
let temporaryFileCount = 0;

async function withFileError<T>(
  call: string,
  path: string,
  operation: () => Promise<T>,
): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw toFileError(error, call, path);
  }
}

async function withDefaultIfMissing<T>(defaultValue: T, operation: () => Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    if (isMissing(error)) return defaultValue;
    throw error;
  }
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function openNew(path: string, mode: number): Promise<FileHandle> {
  try {
    return await open(path, "wx", mode);
  } catch (error) {
    if (errnoOf(error) !== "EEXIST") throw error;
    await rm(path); // A crashed process with the same PID left the file behind.
    return open(path, "wx", mode);
  }
}

async function writeSynced(path: string, text: string, mode: number): Promise<void> {
  const handle = await openNew(path, mode);
  try {
    await handle.chmod(mode); // Restores the permissions that the umask removed.
    await handle.writeFile(text, "utf8");
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function replaceFile(path: string, text: string, mode: number): Promise<void> {
  temporaryFileCount += 1;
  const temporary = `${path}.${String(process.pid)}-${String(temporaryFileCount)}.tmp`;
  try {
    await writeSynced(temporary, text, mode);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncDirectory(dirname(path));
}

async function ensureDirectory(directory: string, mode: number): Promise<void> {
  const firstCreated = await mkdir(directory, { recursive: true, mode });
  if (firstCreated !== undefined) await syncDirectory(dirname(firstCreated));
}

/** Creates the adapter. Each method throws AppError with OS_FILE_FAILED. */
export function createFiles(): Files {
  return {
    readText: (path) =>
      withFileError("read", path, () =>
        withDefaultIfMissing(undefined, () => readFile(path, "utf8")),
      ),
    writeAtomic: (path, text, mode = FILE_MODE) =>
      withFileError("write", path, () => replaceFile(path, text, mode)),
    list: (directory) =>
      withFileError("list", directory, async () =>
        (await withDefaultIfMissing<string[]>([], () => readdir(directory))).sort(),
      ),
    ensureDirectory: (directory, mode = DIRECTORY_MODE) =>
      withFileError("mkdir", directory, () => ensureDirectory(directory, mode)),
    remove: (path) => withFileError("remove", path, () => osNative().removeTree(path)),
    exists: (path) =>
      withFileError("lstat", path, () =>
        withDefaultIfMissing(false, () => lstat(path).then(() => true)),
      ),
    readSpace: (path) =>
      withFileError("statfs", path, async () => {
        const { bsize, blocks, bavail } = await statfs(path);
        return { sizeBytes: blocks * bsize, freeBytes: bavail * bsize };
      }),
    watchDirectory,
  };
}

const WATCH_ROUNDS_MAX = 100;

interface WatchedDirectory {
  readonly path: string;
  readonly inode: number;
}

function findDirectory(path: string): WatchedDirectory | undefined {
  try {
    return { path, inode: statSync(path).ino };
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw toFileError(error, "stat", path);
  }
}

function nearestDirectory(directory: string): WatchedDirectory {
  return findDirectory(directory) ?? nearestDirectory(dirname(directory));
}

function isSameDirectory(a: WatchedDirectory | undefined, b: WatchedDirectory): boolean {
  return a?.path === b.path && a.inode === b.inode;
}

class DirectoryWatch {
  readonly #directory: string;
  readonly #onChange: () => void;
  #watched: WatchedDirectory | undefined;
  #watcher: FSWatcher | undefined;

  constructor(directory: string, onChange: () => void) {
    this.#directory = directory;
    this.#onChange = onChange;
  }

  watchNearestExisting(): void {
    for (let round = 0; round < WATCH_ROUNDS_MAX; round += 1) {
      const nearest = nearestDirectory(this.#directory);
      if (isSameDirectory(this.#watched, nearest)) return;
      this.close();
      if (this.#watchNearest(nearest)) this.#watched = nearest;
    }
    throw toFileError(new Error("the tree keeps changing"), "watch", this.#directory);
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#watched = undefined;
  }

  #watchNearest(nearest: WatchedDirectory): boolean {
    try {
      this.#watcher = watch(nearest.path, (event) => {
        if (event === "rename") this.#onRename();
      });
      this.#watcher.on("error", () => {
        this.#onRename();
      });
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw toFileError(error, "watch", nearest.path);
    }
  }

  #onRename(): void {
    const previous = this.#watched;
    this.watchNearestExisting();
    const exists = this.#watched?.path === this.#directory;
    const existed = previous?.path === this.#directory;
    if (exists || existed) this.#onChange();
  }
}

/** Watches a directory, which may be created, deleted and recreated. @throws AppError with OS_FILE_FAILED */
export function watchDirectory(directory: string, onChange: () => void, signal: AbortSignal): void {
  if (signal.aborted) return;
  const directoryWatch = new DirectoryWatch(directory, onChange);
  directoryWatch.watchNearestExisting();
  signal.addEventListener("abort", () => {
    directoryWatch.close();
  });
}

const PROGRAM_MODE = 0o755;

/** Installs a program atomically with mode 0755. @throws AppError with OS_FILE_FAILED */
export async function installProgram(source: string, target: string): Promise<void> {
  const temporary = `${target}.new`;
  try {
    await copyFile(source, temporary);
    await chmod(temporary, PROGRAM_MODE); // Restores the permissions that the umask removed.
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw toFileError(error, "install", target);
  }
}

const PRIVATE_MODE = 0o600;

/** Returns a stream that writes to a new file. The stream fails with EEXIST if the file exists. */
export function openNewFile(path: string): Writable {
  return createWriteStream(path, { flags: "wx", mode: PRIVATE_MODE });
}
