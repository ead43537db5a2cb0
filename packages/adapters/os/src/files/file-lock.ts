// SPDX-License-Identifier: Apache-2.0
// How does one process at a time do something on this machine, although each of them may be killed at any moment?
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

/** A lock that is held. The kernel gives it back when this process ends. */
export interface FileLock {
  /** Gives it back and removes the file. */
  release(): void;
}

/** Somebody else holds it. */
export interface LockHolder {
  /** Process ID as the holder wrote it; empty when it has not yet. */
  readonly heldBy: string;
}

/** Whether the file that is open is still the one of that name: its last holder may just have removed it. */
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
 * Takes the lock that is a file of that name, or says who has it. Its directory must be there, and others must not be
 * able to open the file: whoever can, can lock it.
 * @throws AppError with OS_FILE_FAILED
 */
export function takeFileLock(path: string): FileLock | LockHolder {
  try {
    for (;;) {
      const outcome = tryLock(path);
      if (outcome !== undefined) return outcome;
    }
  } catch (error) {
    throw toFileError(error, "lock", path);
  }
}
