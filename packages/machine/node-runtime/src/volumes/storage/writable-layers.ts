// SPDX-License-Identifier: Apache-2.0
// What containers have written beside their images, by pod. Pure.
import type { ContainerWrites } from "@patchbay/core/ports";
import { podUidOf } from "../../translate/labels.ts";

/** Bytes that each container has written into its root file system, by uid of the pod and name of the container. */
export type WritableLayers = ReadonlyMap<string, ReadonlyMap<string, number>>;

/** Sums of all runs of a container that are still on the disk. */
export function writableLayersOf(all: readonly ContainerWrites[]): WritableLayers {
  const layers = new Map<string, Map<string, number>>();
  for (const { name, labels, writtenBytes } of all) {
    const uid = podUidOf(labels);
    if (uid === undefined) continue;
    const ofPod = layers.get(uid) ?? new Map<string, number>();
    layers.set(uid, ofPod.set(name, (ofPod.get(name) ?? 0) + writtenBytes));
  }
  return layers;
}
