// SPDX-License-Identifier: Apache-2.0
// Removes unused images when the disk is nearly full. Also forgets which pull credentials were accepted for images that no longer exist.
import type { ContainerImage, Cache, ContainerRuntime, Files } from "@patchbay/core/interfaces";
import { type Clock, type Logger, messageOf } from "@patchbay/base";
import { isLocalName, isFromRegistry, listReferenceAliases } from "./names.ts";
import type { Pod } from "@patchbay/api/kubernetes";

import { listPodContainers } from "../pods/facts.ts";
import type { Grants } from "./access.ts";

// Above a disk usage of HIGH_USAGE, images are removed until the usage is LOW_USAGE. Source: kubelet, imageGC*ThresholdPercent.
const HIGH_USAGE = 0.85;
const LOW_USAGE = 0.8;

interface DiskSpace {
  readonly sizeBytes: number;
  readonly freeBytes: number;
}

interface NodeImages {
  readonly images: readonly ContainerImage[];
  readonly usedNames: ReadonlySet<string>;
  readonly addedNames: ReadonlySet<string>;
}

/** Returns whether a registry can serve the image again. Returns false for images that a user added. */
function isRestorable(image: ContainerImage, addedNames: ReadonlySet<string>): boolean {
  const { tags, digests } = image;
  const isAdded = (name: string): boolean =>
    addedNames.has(name) || isLocalName(name) || !isFromRegistry(name, image);
  return digests.length > 0 && !tags.some(isAdded);
}

function isUsed({ id, tags, digests }: ContainerImage, usedNames: ReadonlySet<string>): boolean {
  return [id, ...tags, ...digests].some((name) => usedNames.has(name));
}

/** Selects unused images to remove, largest first, if the disk usage is above HIGH_USAGE. Never selects images that a user added. */
export function selectGarbage(
  { images, usedNames, addedNames }: NodeImages,
  disk: DiskSpace,
): readonly ContainerImage[] {
  const { sizeBytes, freeBytes } = disk;
  if (sizeBytes <= 0 || sizeBytes - freeBytes <= sizeBytes * HIGH_USAGE) return [];
  const unusedImages = images.filter(
    (image) => isRestorable(image, addedNames) && !isUsed(image, usedNames),
  );
  let missingBytes = sizeBytes - freeBytes - sizeBytes * LOW_USAGE;
  return [...unusedImages]
    .sort((one, other) => other.bytes - one.bytes)
    .filter(({ bytes }) => {
      const isNeeded = missingBytes > 0;
      if (isNeeded) missingBytes -= bytes;
      return isNeeded;
    });
}

export interface ImageGarbageDeps {
  readonly runtime: ContainerRuntime;
  readonly files: Files;
  readonly pods: Cache<Pod>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Directory of the pods. Must be on the images' file system, because images are removed if the free space at this path is low. */
  readonly podsDir: string;
  readonly listAdded: () => Promise<readonly string[]>;
  readonly grants: Pick<Grants, "retainOnly">;
}

/** Source: imageGCPeriod of the kubelet. */
const GARBAGE_COLLECTION_INTERVAL_MS = 300_000;

function listPodImages(pod: Pod): readonly string[] {
  const { spec } = pod;
  const volumes = (spec.volumes ?? []).flatMap(({ image }) => image?.reference ?? []);
  return [...volumes, ...listPodContainers(pod).map(({ image }) => image)].flatMap(
    listReferenceAliases,
  );
}

export async function removeGarbage(deps: ImageGarbageDeps): Promise<void> {
  const { runtime, files, pods, log, podsDir } = deps;
  const disk = await files.readSpace(podsDir);
  const containers = await runtime.listContainers();
  const usedNames = new Set([
    ...containers.map(({ image }) => image),
    ...pods.list().flatMap(listPodImages),
  ]);
  const addedNames = new Set(await deps.listAdded());
  for (const image of selectGarbage(
    { images: await runtime.listImages(), usedNames, addedNames },
    disk,
  )) {
    await runtime.removeImage(image.id);
    log.info("image removed: the disk is nearly full", { object: image.id, bytes: image.bytes });
  }
}

async function forgetRemovedImages({ runtime, grants }: ImageGarbageDeps): Promise<void> {
  await grants.retainOnly(new Set((await runtime.listImages()).map(({ id }) => id)));
}

export async function runImageGarbageCollection(
  deps: ImageGarbageDeps,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await removeGarbage(deps);
      await forgetRemovedImages(deps);
    } catch (error) {
      deps.log.warn("unused images cannot be removed", { reason: messageOf(error) });
    }
    await deps.clock.sleep(GARBAGE_COLLECTION_INTERVAL_MS, signal).catch(() => undefined);
  }
}
