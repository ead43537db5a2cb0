// SPDX-License-Identifier: Apache-2.0
// How large is the file of a claim, and how is the file system in it made? Pure.
import type { ClaimSize } from "@patchbay/core/ports";

const MEBIBYTE = 2 ** 20;
const BLOCK_BYTES = 4096;
/** What ext4 takes for itself beside the data: inodes of 256 bytes for each 16 KiB, bitmaps, trees of extents. */
const OWN_SHARE = 24;
const OWN_BYTES = 2 * MEBIBYTE;
/** Below it ext4 has no room for a journal. Source: mke2fs, 2048 blocks; with the journal itself. */
const FILES_LEAST_BYTES = 12 * MEBIBYTE;

/** Larger file systems have more to write at once. Half of what mke2fs takes is enough for one guest. */
function journalMib(sizeBytes: number): number {
  if (sizeBytes < 128 * MEBIBYTE) return 4;
  return sizeBytes < 1024 * MEBIBYTE ? 16 : 64;
}

/** Bytes of the file, whole blocks. */
export function fileBytesOf({ kind, sizeBytes }: ClaimSize): number {
  const own = sizeBytes / OWN_SHARE + OWN_BYTES + journalMib(sizeBytes) * MEBIBYTE;
  const bytes = kind === "device" ? sizeBytes : Math.max(FILES_LEAST_BYTES, sizeBytes + own);
  return Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
}

/** Arguments of mke2fs before the file. With a journal: what is in it must survive the loss of power. */
export function formatOf({ sizeBytes }: ClaimSize): readonly string[] {
  return [
    "-q",
    "-F",
    "-t",
    "ext4",
    "-b",
    String(BLOCK_BYTES),
    "-i",
    "16384",
    "-I",
    "256",
    // Nothing is kept for root: the size is the pod's.
    "-m",
    "0",
    "-O",
    "^resize_inode",
    "-J",
    `size=${String(journalMib(sizeBytes))}`,
    "-E",
    "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
  ];
}

/**
 * `discard` gives back what guests delete; the tables of inodes need no zeros where a hole reads as zeros; a file system
 * that is found damaged is not written any more.
 */
export const MOUNT_OPTIONS = "loop,nosuid,nodev,noatime,discard,noinit_itable,errors=remount-ro";
