// SPDX-License-Identifier: Apache-2.0
// Which images may go when the disk is nearly full? Pure: those that nobody uses and a registry has.
import type { ContainerImage } from "@patchbay/core/ports";
import { isLocalName, isOfRegistry } from "./names.ts";

/** Above this part of the disk images go, and until this much is free again. Source: kubelet, imageGC…ThresholdPercent. */
const HIGH = 0.85;
const LOW = 0.8;

/** How full the disk is, bytes. */
export interface DiskSpace {
  readonly sizeBytes: number;
  readonly freeBytes: number;
}

/** What is on the node. */
export interface ImageUse {
  readonly images: readonly ContainerImage[];
  /** Ids and references that containers were made from, or that pods of the node name. */
  readonly used: ReadonlySet<string>;
  /** Names that were given on this machine. */
  readonly added: ReadonlySet<string>;
}

/** Who gave it another name by hand would miss it, and an archive that was imported is nowhere else. */
function isFetched(image: ContainerImage, added: ReadonlySet<string>): boolean {
  const { tags, digests } = image;
  const isByHand = (name: string): boolean =>
    added.has(name) || isLocalName(name) || !isOfRegistry(name, image);
  return digests.length > 0 && !tags.some(isByHand);
}

function isUsed({ id, tags, digests }: ContainerImage, used: ReadonlySet<string>): boolean {
  return [id, ...tags, ...digests].some((name) => used.has(name));
}

/** The images to remove, the largest first, until enough is free; none while there is enough. */
export function garbageOf(
  { images, used, added }: ImageUse,
  disk: DiskSpace,
): readonly ContainerImage[] {
  const { sizeBytes, freeBytes } = disk;
  if (sizeBytes <= 0 || sizeBytes - freeBytes <= sizeBytes * HIGH) return [];
  const unused = images.filter((image) => isFetched(image, added) && !isUsed(image, used));
  let missing = sizeBytes - freeBytes - sizeBytes * LOW;
  return [...unused]
    .sort((one, other) => other.bytes - one.bytes)
    .filter(({ bytes }) => {
      const isNeeded = missing > 0;
      if (isNeeded) missing -= bytes;
      return isNeeded;
    });
}
