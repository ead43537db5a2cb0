// SPDX-License-Identifier: Apache-2.0
// A file beside the store that only keeps room on the disk: it is let go piece by piece when the disk is full, so that things
// can still be deleted, and taken again when there is room.
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

/** How much is kept: thousands of changes of a usual size; on a small disk a share of it. */
const RESERVE_BYTES = 16 * 2 ** 20;
const DISK_SHARE = 0.05;
/** So much is let go at once: whoever has filled the disk takes what the store leaves of it. */
const PIECE_BYTES = 256 * 1024;
/** Nobody reads it. */
const PRIVATE = 0o600;

/** Room for a store that its disk has no other room for. */
export interface Reserve {
  /** Whether all of it is there: if not, the disk was full and has not been emptied since. */
  readonly isWhole: boolean;
  /** Frees a piece; false: nothing is left. */
  letGo(): boolean;
  /** Takes what is missing, if as much again stays free. */
  refill(): void;
  close(): void;
}

/** For a store that is on no disk, or that never had room for one. */
const NONE: Reserve = {
  isWhole: true,
  letGo: () => false,
  refill: () => undefined,
  close: () => undefined,
};

function isFull(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOSPC" || code === "EDQUOT";
}

class ReserveFile implements Reserve {
  readonly #directory: string;
  readonly #file: number;
  readonly #wantedBytes: number;
  #bytes: number;

  constructor(path: string) {
    this.#directory = dirname(path);
    this.#file = openSync(path, "a", PRIVATE);
    const { bsize, blocks } = statfsSync(this.#directory);
    this.#wantedBytes = Math.min(RESERVE_BYTES, Math.floor(bsize * blocks * DISK_SHARE));
    this.#bytes = fstatSync(this.#file).size;
  }

  get isWhole(): boolean {
    return this.#bytes >= this.#wantedBytes;
  }

  letGo(): boolean {
    if (this.#bytes === 0) return false;
    this.#bytes = Math.max(this.#bytes - PIECE_BYTES, 0);
    ftruncateSync(this.#file, this.#bytes);
    fsyncSync(this.#file); // a journal gives blocks back when it is written
    return true;
  }

  refill(): void {
    if (this.isWhole) return;
    const { bsize, bavail } = statfsSync(this.#directory);
    if (bsize * bavail < this.#wantedBytes - this.#bytes + this.#wantedBytes) return;
    try {
      while (this.#bytes < this.#wantedBytes) {
        const piece = Math.min(PIECE_BYTES, this.#wantedBytes - this.#bytes);
        // Random: a file system may keep nothing for zeros.
        this.#bytes += writeSync(this.#file, randomFillSync(Buffer.alloc(piece)));
      }
    } catch (error) {
      if (!isFull(error)) throw error; // somebody was quicker: the next time
    }
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** The reserve of the store at that path, filled if there is room. Throws what the file system says. */
export function openReserve(storePath: string): Reserve {
  if (storePath === ":memory:") return NONE;
  try {
    const reserve = new ReserveFile(`${storePath}.reserve`);
    reserve.refill();
    return reserve;
  } catch (error) {
    if (isFull(error)) return NONE; // a full disk keeps no server from starting
    throw error;
  }
}
