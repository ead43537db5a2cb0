// SPDX-License-Identifier: Apache-2.0
// How much of the node's disk may be promised to claims, and how much is? Pure. Files of claims are sparse: what is promised
// counts, whatever is written, so that no claim that is kept within its size fills the disk.
import { parseQuantity, type PersistentVolume } from "@patchbay/api";
import { PROVISIONER } from "../words.ts";

/** What of the disk is not for claims, but for images, files of pods and the store: this share, or these bytes if that is less. */
const RESERVE_SHARE = 0.15;
const RESERVE_BYTES = 20 * 2 ** 30;

/** Bytes that all claims may have together, on a disk of that size. */
export function claimRoomOf(diskBytes: number): number {
  return Math.floor(diskBytes - Math.min(diskBytes * RESERVE_SHARE, RESERVE_BYTES));
}

/**
 * Bytes that volumes of this machine promise. A volume counts as long as its object is there: what is written in it goes
 * before the object does, whether its claim is gone or not, and whichever mode it has.
 */
export function promisedBytesOf(volumes: readonly PersistentVolume[]): number {
  return volumes
    .filter(({ spec }) => spec.csi?.driver === PROVISIONER)
    .map(({ spec }) => Math.ceil(parseQuantity(spec.capacity?.["storage"] ?? "") ?? 0))
    .reduce((sum, bytes) => sum + bytes, 0);
}

/** The disk that claims are on, as claims see it. */
export interface ClaimRoom {
  /** Size of the disk. */
  readonly diskBytes: number;
  /** What the volumes of other claims promise. */
  readonly promisedBytes: number;
}

/** What another claim may have now; nothing where claims of before a limit promise more than there is. */
export function leftBytesOf({ diskBytes, promisedBytes }: ClaimRoom): number {
  return Math.max(claimRoomOf(diskBytes) - promisedBytes, 0);
}
