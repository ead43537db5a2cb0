// SPDX-License-Identifier: Apache-2.0
// How much of the disk do the pods use? What has a file system of its own says so itself; the rest is walked, all at once.
import { join } from "node:path";
import type { Pod } from "@patchbay/api";
import type { ContainerRuntime, Files, VolumeDisk } from "@patchbay/core/ports";
import type { NodeFacts } from "../../translate/node-facts.ts";
import { volumePath } from "../layout.ts";
import type { PodUsage } from "./limits.ts";
import { writableLayersOf, type WritableLayers } from "./writable-layers.ts";

/** The machine. */
export interface MeasureDeps {
  readonly disk: VolumeDisk;
  readonly files: Files;
  readonly node: NodeFacts;
  readonly runtime: Pick<ContainerRuntime, "listWrites">;
}

interface Place {
  readonly name: string;
  readonly path: string;
}

interface Places {
  readonly pod: Pod;
  /** In file systems of their own. */
  readonly walled: readonly Place[];
  readonly volumes: readonly Place[];
  readonly logs: readonly Place[];
}

async function placesOf({ disk, node }: MeasureDeps, pod: Pod): Promise<Places> {
  const { uid = "", namespace = "", name } = pod.metadata;
  const onDisk = (pod.spec.volumes ?? []).filter(
    ({ emptyDir }) => emptyDir !== undefined && emptyDir.medium !== "Memory",
  );
  const all = onDisk.map((volume) => {
    const at = { podsDir: node.podsDir, uid, kind: "emptyDir", name: volume.name } as const;
    return { name: volume.name, path: volumePath(at) };
  });
  const mounts = new Set(await disk.listMounts(join(node.podsDir, uid)));
  const containers = [...(pod.spec.initContainers ?? []), ...pod.spec.containers];
  const logs = join(node.logDir, `${namespace}_${name}_${uid}`);
  return {
    pod,
    walled: all.filter(({ path }) => mounts.has(path)),
    volumes: all.filter(({ path }) => !mounts.has(path)),
    logs: containers.map((one) => ({ name: one.name, path: join(logs, one.name) })),
  };
}

async function usedOf(files: Files, path: string): Promise<number> {
  const { sizeBytes, freeBytes } = await files.space(path);
  return sizeBytes - freeBytes;
}

async function usageOf(
  { files }: MeasureDeps,
  places: Places,
  known: { readonly walked: ReadonlyMap<string, number>; readonly layers: WritableLayers },
): Promise<PodUsage> {
  const volumes = new Map<string, number>();
  for (const { name, path } of places.walled) volumes.set(name, await usedOf(files, path));
  for (const { name, path } of places.volumes) volumes.set(name, known.walked.get(path) ?? 0);
  const layers = known.layers.get(places.pod.metadata.uid ?? "");
  const containers = places.logs.map(({ name, path }) => {
    return [name, (known.walked.get(path) ?? 0) + (layers?.get(name) ?? 0)] as const;
  });
  return { volumes, containers: new Map(containers) };
}

/** The use of each pod, by its uid. */
export async function measurePods(
  deps: MeasureDeps,
  pods: readonly Pod[],
): Promise<ReadonlyMap<string, PodUsage>> {
  const all: Places[] = [];
  for (const pod of pods) all.push(await placesOf(deps, pod));
  const paths = all.flatMap(({ volumes, logs }) => [...volumes, ...logs].map(({ path }) => path));
  const walked = await deps.disk.usedBytes(paths);
  const known = { walked, layers: writableLayersOf(await deps.runtime.listWrites()) };
  const usages = new Map<string, PodUsage>();
  for (const places of all) {
    usages.set(places.pod.metadata.uid ?? "", await usageOf(deps, places, known));
  }
  return usages;
}
