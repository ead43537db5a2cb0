// SPDX-License-Identifier: Apache-2.0
// How are files of this machine read and written, so that a crash leaves the old file or the new one?
import {
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  statfs,
  type FileHandle,
} from "node:fs/promises";
import { dirname } from "node:path";
import type { Files } from "@patchbay/core/ports";
import { errnoOf, isMissing, toFileError } from "./file-errors.ts";
import { osNative } from "../native.ts";
import { watchDirectory } from "./watch-directory.ts";

const FILE_MODE = 0o644;
const DIRECTORY_MODE = 0o755;
let temporaryFiles = 0;

async function attempt<T>(call: string, path: string, operation: () => Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw toFileError(error, call, path);
  }
}

async function unlessMissing<T>(absent: T, operation: () => Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    if (isMissing(error)) return absent;
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
    await rm(path); // of an earlier process with this pid
    return open(path, "wx", mode);
  }
}

async function writeSynced(path: string, text: string, mode: number): Promise<void> {
  const handle = await openNew(path, mode);
  try {
    await handle.chmod(mode); // whatever the umask is
    await handle.writeFile(text, "utf8");
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function replaceFile(path: string, text: string, mode: number): Promise<void> {
  temporaryFiles += 1;
  const temporary = `${path}.${String(process.pid)}-${String(temporaryFiles)}.tmp`;
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
  const first = await mkdir(directory, { recursive: true, mode });
  if (first !== undefined) await syncDirectory(dirname(first));
}

/** Files of this machine. Every method throws AppError with OS_FILE_FAILED. */
export function createFiles(): Files {
  return {
    readText: (path) =>
      attempt("read", path, () => unlessMissing(undefined, () => readFile(path, "utf8"))),
    writeAtomic: (path, text, mode = FILE_MODE) =>
      attempt("write", path, () => replaceFile(path, text, mode)),
    list: (directory) =>
      attempt("list", directory, async () =>
        (await unlessMissing<string[]>([], () => readdir(directory))).sort(),
      ),
    ensureDirectory: (directory, mode = DIRECTORY_MODE) =>
      attempt("mkdir", directory, () => ensureDirectory(directory, mode)),
    remove: (path) => attempt("remove", path, () => osNative().removeTree(path)),
    exists: (path) =>
      attempt("lstat", path, () => unlessMissing(false, () => lstat(path).then(() => true))),
    space: (path) =>
      attempt("statfs", path, async () => {
        const { bsize, blocks, bavail } = await statfs(path);
        return { sizeBytes: blocks * bsize, freeBytes: bavail * bsize };
      }),
    watchDirectory,
  };
}
