// SPDX-License-Identifier: Apache-2.0
// Removes images that nobody uses when the disk is nearly full.
import type { Pod } from "@patchbay/api";
import { fullReference } from "@patchbay/containerd";
import { messageOf } from "@patchbay/core";
import type { Cache, Clock, ContainerRuntime, Files, Logger } from "@patchbay/ports";
import { containersOf } from "../pods/facts.ts";
import { garbageOf } from "./garbage.ts";
import type { ImageAccess } from "./image-access.ts";

/** What images are kept with. */
export interface ImageKeeping {
  readonly runtime: ContainerRuntime;
  readonly access: Pick<ImageAccess, "keep">;
  readonly files: Files;
  /** The pods of this node. */
  readonly pods: Cache<Pod>;
  readonly clock: Clock;
  readonly log: Logger;
  /** On the file system of the images. */
  readonly podsDir: string;
}

/** How often the disk is asked how full it is, milliseconds. Source: kubelet, ImageGCPeriod. */
const LOOK_MS = 300_000;

/** As people write it, and as the runtime tells it: whole. */
function spellingsOf(reference: string): readonly string[] {
  try {
    return [reference, fullReference(reference)];
  } catch {
    return [reference]; // no image has such a name
  }
}

function namedBy(pod: Pod): readonly string[] {
  const { spec } = pod;
  const volumes = (spec.volumes ?? []).flatMap(({ image }) => image?.reference ?? []);
  return [...volumes, ...containersOf(pod).map(({ image }) => image)].flatMap(spellingsOf);
}

/** One look. */
export async function removeGarbage(deps: ImageKeeping): Promise<void> {
  const { access, runtime, files, pods, log, podsDir } = deps;
  const disk = await files.space(podsDir);
  const containers = await runtime.listContainers();
  const used = new Set([...containers.map(({ image }) => image), ...pods.list().flatMap(namedBy)]);
  const images = await runtime.listImages();
  await access.keep(new Set(images.map(({ id }) => id)));
  for (const image of garbageOf({ images, used }, disk)) {
    await runtime.removeImage(image.id);
    log.info("image removed: the disk is nearly full", { object: image.id, bytes: image.bytes });
  }
}

/** Looks until aborted. */
export async function keepImages(deps: ImageKeeping, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await removeGarbage(deps);
    } catch (error) {
      deps.log.warn("images not looked at", { reason: messageOf(error) });
    }
    await deps.clock.sleep(LOOK_MS, signal).catch(() => undefined); // aborted: the loop sees it
  }
}
