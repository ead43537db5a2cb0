// SPDX-License-Identifier: Apache-2.0
// Locks between processes, which the kernel releases when their process dies.
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { isMissing, toFileError } from "./file-errors.ts";
import { osNative } from "../native.ts";

const MODE = 0o600;

export interface FileLock {
  release(): void;
}

export interface LockHolder {
  /** Process ID that the holder wrote; empty before the holder writes it. */
  readonly heldBy: string;
}

/** Checks whether the path still names the open file, which its last holder may have removed. */
function isCurrent(fd: number, path: string): boolean {
  try {
    return statSync(path, { bigint: true }).ino === fstatSync(fd, { bigint: true }).ino;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

function tryLock(path: string): FileLock | LockHolder | undefined {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW;
  const fd = openSync(path, flags, MODE);
  if (!osNative().lockDescriptor(fd)) {
    const heldBy = readFileSync(fd, "utf8").trim();
    closeSync(fd);
    return { heldBy };
  }
  if (!isCurrent(fd, path)) {
    closeSync(fd);
    return undefined;
  }
  ftruncateSync(fd);
  writeSync(fd, `${String(process.pid)}\n`, 0);
  return {
    release: () => {
      if (isCurrent(fd, path)) rmSync(path, { force: true });
      closeSync(fd);
    },
  };
}

/**
 * Locks the file, or returns its holder. Other users must not be able to open the file, because they could lock it.
 * @throws AppError with OS_FILE_FAILED
 */
export function acquireFileLock(path: string): FileLock | LockHolder {
  try {
    for (;;) {
      const outcome = tryLock(path);
      if (outcome !== undefined) return outcome;
    }
  } catch (error) {
    throw toFileError(error, "lock", path);
  }
}
