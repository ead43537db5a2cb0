// SPDX-License-Identifier: Apache-2.0
// Removes images that nobody uses when the disk is nearly full, and forgets who might have those that are gone.
import type { Pod } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import type { Cache, Clock, ContainerRuntime, Files, Logger } from "@patchbay/core/ports";
import { containersOf } from "../pods/facts.ts";
import { garbageOf } from "./garbage.ts";
import type { Grants } from "./grants.ts";
import { spellingsOf } from "./names.ts";

/** What images are kept with. */
export interface ImageKeeping {
  readonly runtime: ContainerRuntime;
  readonly files: Files;
  /** The pods of this node. */
  readonly pods: Cache<Pod>;
  readonly clock: Clock;
  readonly log: Logger;
  /** On the file system of the images. */
  readonly podsDir: string;
  /** Names that were given on this machine. */
  readonly listAdded: () => Promise<readonly string[]>;
  readonly grants: Pick<Grants, "keepOnly">;
}

/** How often the disk is asked how full it is, milliseconds. Source: kubelet, ImageGCPeriod. */
const LOOK_MS = 300_000;

function namedBy(pod: Pod): readonly string[] {
  const { spec } = pod;
  const volumes = (spec.volumes ?? []).flatMap(({ image }) => image?.reference ?? []);
  return [...volumes, ...containersOf(pod).map(({ image }) => image)].flatMap(spellingsOf);
}

/** One look. */
export async function removeGarbage(deps: ImageKeeping): Promise<void> {
  const { runtime, files, pods, log, podsDir } = deps;
  const disk = await files.space(podsDir);
  const containers = await runtime.listContainers();
  const used = new Set([...containers.map(({ image }) => image), ...pods.list().flatMap(namedBy)]);
  const added = new Set(await deps.listAdded());
  for (const image of garbageOf({ images: await runtime.listImages(), used, added }, disk)) {
    await runtime.removeImage(image.id);
    log.info("image removed: the disk is nearly full", { object: image.id, bytes: image.bytes });
  }
}

async function forgetGone({ runtime, grants }: ImageKeeping): Promise<void> {
  await grants.keepOnly(new Set((await runtime.listImages()).map(({ id }) => id)));
}

/** Looks until aborted. */
export async function keepImages(deps: ImageKeeping, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await removeGarbage(deps);
      await forgetGone(deps);
    } catch (error) {
      deps.log.warn("images cannot be looked at", { reason: messageOf(error) });
    }
    await deps.clock.sleep(LOOK_MS, signal).catch(() => undefined); // aborted: the loop sees it
  }
}
