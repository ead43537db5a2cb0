// SPDX-License-Identifier: Apache-2.0
// File locks between processes. The kernel releases the lock of a process that exits.
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
import type { InheritedFd } from "@patchbay/core/interfaces";
import { isMissing, toFileError } from "./file-errors.ts";
import { osNative } from "../native.ts";

const LOCK_FILE_MODE = 0o600;

export interface FileLock {
  /** A program that inherits it holds the lock too, until that program ends. */
  readonly descriptor: InheritedFd;
  release(): void;
}

export interface LockHolder {
  /** PID of the process that holds the lock. Empty if that process has not written its PID yet. */
  readonly holderPid: string;
}

/** Checks whether the path still refers to the locked file. A process that releases its lock removes the file. */
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
  const fd = openSync(path, flags, LOCK_FILE_MODE);
  if (!osNative().lockDescriptor(fd)) {
    const heldBy = readFileSync(fd, "utf8").trim();
    closeSync(fd);
    return { holderPid: heldBy };
  }
  if (!isCurrent(fd, path)) {
    closeSync(fd);
    return undefined;
  }
  ftruncateSync(fd);
  writeSync(fd, `${String(process.pid)}\n`, 0);
  return {
    descriptor: { fd, inode: fstatSync(fd, { bigint: true }).ino.toString() },
    release: () => {
      if (isCurrent(fd, path)) rmSync(path, { force: true });
      closeSync(fd);
    },
  };
}

/**
 * Locks a file, or returns the PID of the process with the lock. Creates the file with access for its owner only,
 * because any user who can open it could lock it. @throws AppError with OS_FILE_FAILED
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
