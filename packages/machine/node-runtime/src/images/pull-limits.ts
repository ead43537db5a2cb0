// SPDX-License-Identifier: Apache-2.0
// Which pulls are to be stopped, because of what comes out of their layers? Pure. A registry tells how large a layer is as it
// sends it; what it unpacks to, nobody knows before it is unpacked.
import { printBytes, type DiskSpace } from "../volumes/storage/limits.ts";

/** What one image may add to the disk. */
const IMAGE_SHARE = 0.25;
/** Below this share of the disk, or these bytes if that is less, nothing is fetched: twice what makes a pod go. */
const LOW_SHARE = 0.1;
const LOW_BYTES = 2 * 2 ** 30;

/** What one image may unpack to, bytes. */
export function imageLimitOf({ sizeBytes }: DiskSpace): number {
  return Math.floor(sizeBytes * IMAGE_SHARE);
}

/** Whether the disk has no room for images. */
export function isLowForImages({ sizeBytes, freeBytes }: DiskSpace): boolean {
  return freeBytes < Math.min(sizeBytes * LOW_SHARE, LOW_BYTES);
}

/** What is known of pulls that are under way: bytes that came out of each, by reference; 0: not known, or nothing yet. */
export type Unpacked = ReadonlyMap<string, number>;

function blamed(unpacked: Unpacked): readonly string[] {
  const most = Math.max(...unpacked.values());
  return [...unpacked].filter(([, bytes]) => bytes === most).map(([reference]) => reference);
}

/** The pulls to stop, with the reason for people. On a disk that gets full the largest; all, where none is known to be. */
export function pullsToStop(unpacked: Unpacked, disk: DiskSpace): ReadonlyMap<string, string> {
  const limit = imageLimitOf(disk);
  const large = [...unpacked].filter(([, bytes]) => bytes > limit);
  if (large.length > 0) {
    const size = printBytes(disk.sizeBytes);
    const reason = `it unpacks to more than ${printBytes(limit)}, a quarter of the node's disk of ${size}`;
    return new Map(large.map(([reference]) => [reference, reason]));
  }
  if (!isLowForImages(disk)) return new Map();
  const [free, size] = [disk.freeBytes, disk.sizeBytes].map(printBytes);
  const reason = `the node's disk is nearly full: ${free ?? ""} of ${size ?? ""} are left`;
  return new Map(blamed(unpacked).map((reference) => [reference, reason]));
}
