// SPDX-License-Identifier: Apache-2.0
// A file that reserves disk space, so that deletes still work on a full disk. It shrinks when the disk is full.
import { randomFillSync } from "node:crypto";
import {
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  statfsSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";

/** Size of the reserve, which is enough for thousands of typical writes. A small disk has a smaller reserve. */
const RESERVE_BYTES = 16 * 2 ** 20;
const MAX_DISK_FRACTION = 0.05;
/** Number of bytes to free at a time. It is small, so that another process cannot use the whole reserve at once. */
const RELEASE_STEP_BYTES = 256 * 1024;
const PRIVATE_MODE = 0o600;

export interface Reserve {
  /** Whether the file has its full size. A smaller file means that the disk is or was full. */
  readonly isFullSize: boolean;
  /** Shrinks the file by at most RELEASE_STEP_BYTES to free disk space. Returns false if the file is empty. */
  release(): boolean;
  /** Grows the file to its full size. Does nothing if the remaining free space of the disk would be smaller than the file. */
  refill(): void;
  close(): void;
}

/** Substitute for a reserve file. A store in memory needs no file, and a store that was opened on a full disk has no room for one. */
const NO_RESERVE: Reserve = {
  isFullSize: true,
  release: () => false,
  refill: () => undefined,
  close: () => undefined,
};

function isDiskFull(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOSPC" || code === "EDQUOT";
}

class ReserveFile implements Reserve {
  readonly #directory: string;
  readonly #file: number;
  readonly #targetBytes: number;
  #bytes: number;

  constructor(path: string) {
    this.#directory = dirname(path);
    this.#file = openSync(path, "a", PRIVATE_MODE);
    const { bsize, blocks } = statfsSync(this.#directory);
    this.#targetBytes = Math.min(RESERVE_BYTES, Math.floor(bsize * blocks * MAX_DISK_FRACTION));
    this.#bytes = fstatSync(this.#file).size;
  }

  get isFullSize(): boolean {
    return this.#bytes >= this.#targetBytes;
  }

  release(): boolean {
    if (this.#bytes === 0) return false;
    this.#bytes = Math.max(this.#bytes - RELEASE_STEP_BYTES, 0);
    ftruncateSync(this.#file, this.#bytes);
    fsyncSync(this.#file); // Forces the commit at which journaling file systems free the blocks.
    return true;
  }

  refill(): void {
    if (this.isFullSize) return;
    const { bsize, bavail } = statfsSync(this.#directory);
    if (bsize * bavail < this.#targetBytes - this.#bytes + this.#targetBytes) return;
    try {
      while (this.#bytes < this.#targetBytes) {
        const pieceBytes = Math.min(RELEASE_STEP_BYTES, this.#targetBytes - this.#bytes);
        // Writes random data, because file systems may not allocate blocks for zeros.
        this.#bytes += writeSync(this.#file, randomFillSync(Buffer.alloc(pieceBytes)));
      }
    } catch (error) {
      if (!isDiskFull(error)) throw error; // Another process has filled the disk. A later call continues.
    }
  }

  close(): void {
    closeSync(this.#file);
  }
}

export function openReserve(storePath: string): Reserve {
  if (storePath === ":memory:") return NO_RESERVE;
  try {
    const reserve = new ReserveFile(`${storePath}.reserve`);
    reserve.refill();
    return reserve;
  } catch (error) {
    if (isDiskFull(error)) return NO_RESERVE; // The server must start even on a full disk.
    throw error;
  }
}
