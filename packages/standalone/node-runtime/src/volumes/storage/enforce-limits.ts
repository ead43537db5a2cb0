// SPDX-License-Identifier: Apache-2.0
// Evicts pods that exceed their disk limits, and the largest pod if the disk is nearly full.
import type {
  ContainerWrites,
  ContainerRuntime,
  Files,
  VolumeDisk,
  Cache,
} from "@patchbay/core/interfaces";
import { type Clock, type Logger, messageOf } from "@patchbay/base";
import { findPodUid } from "../../translate/labels.ts";
import { join } from "node:path";
import { type Pod, isPodFinished } from "@patchbay/api/kubernetes";
import type { NodeFacts } from "../../translate/node-facts.ts";
import { buildVolumePath } from "../layout.ts";
import {
  type PodUsage,
  computeHeadroomBytes,
  isWalkDue,
  selectVictim,
  findLimitViolation,
  type DiskSpace,
  type Walk,
} from "./limits.ts";

import type { Growths } from "./growth.ts";

/** Bytes in writable layers, by pod uid and container name. */
type WritableLayers = ReadonlyMap<string, ReadonlyMap<string, number>>;

function groupWritableLayers(writes: readonly ContainerWrites[]): WritableLayers {
  const layers = new Map<string, Map<string, number>>();
  for (const { name, labels, writtenBytes } of writes) {
    const uid = findPodUid(labels);
    if (uid === undefined) continue;
    const podLayers = layers.get(uid) ?? new Map<string, number>();
    layers.set(uid, podLayers.set(name, (podLayers.get(name) ?? 0) + writtenBytes));
  }
  return layers;
}

interface MeasureDeps {
  readonly disk: VolumeDisk;
  readonly files: Files;
  readonly node: NodeFacts;
  readonly runtime: Pick<ContainerRuntime, "listWrites">;
}

interface NamedPath {
  readonly name: string;
  readonly path: string;
}

interface MeasuredPaths {
  readonly pod: Pod;
  readonly ownFileSystems: readonly NamedPath[];
  readonly volumes: readonly NamedPath[];
  readonly logs: readonly NamedPath[];
}

async function findMeasuredPaths({ disk, node }: MeasureDeps, pod: Pod): Promise<MeasuredPaths> {
  const { uid = "", namespace = "", name } = pod.metadata;
  const diskVolumes = (pod.spec.volumes ?? []).filter(
    ({ emptyDir }) => emptyDir !== undefined && emptyDir.medium !== "Memory",
  );
  const volumePaths = diskVolumes.map((volume) => {
    const location = { podsDir: node.podsDir, uid, kind: "emptyDir", name: volume.name } as const;
    return { name: volume.name, path: buildVolumePath(location) };
  });
  const mounts = new Set(await disk.listMounts(join(node.podsDir, uid)));
  const containers = [...(pod.spec.initContainers ?? []), ...pod.spec.containers];
  const logs = join(node.logDir, `${namespace}_${name}_${uid}`);
  return {
    pod,
    ownFileSystems: volumePaths.filter(({ path }) => mounts.has(path)),
    volumes: volumePaths.filter(({ path }) => !mounts.has(path)),
    logs: containers.map((container) => ({
      name: container.name,
      path: join(logs, container.name),
    })),
  };
}

async function measureFileSystem(files: Files, path: string): Promise<number> {
  const { sizeBytes, freeBytes } = await files.readSpace(path);
  return sizeBytes - freeBytes;
}

async function measurePod(
  { files }: MeasureDeps,
  measured: MeasuredPaths,
  measurements: {
    readonly treeSizes: ReadonlyMap<string, number>;
    readonly layers: WritableLayers;
  },
): Promise<PodUsage> {
  const volumes = new Map<string, number>();
  for (const { name, path } of measured.ownFileSystems)
    volumes.set(name, await measureFileSystem(files, path));
  for (const { name, path } of measured.volumes)
    volumes.set(name, measurements.treeSizes.get(path) ?? 0);
  const layers = measurements.layers.get(measured.pod.metadata.uid ?? "");
  const containers = measured.logs.map(({ name, path }) => {
    return [name, (measurements.treeSizes.get(path) ?? 0) + (layers?.get(name) ?? 0)] as const;
  });
  return { volumes, containers: new Map(containers) };
}

async function measurePods(
  deps: MeasureDeps,
  pods: readonly Pod[],
): Promise<ReadonlyMap<string, PodUsage>> {
  const measuredPods: MeasuredPaths[] = [];
  for (const pod of pods) measuredPods.push(await findMeasuredPaths(deps, pod));
  const paths = measuredPods.flatMap(({ volumes, logs }) =>
    [...volumes, ...logs].map(({ path }) => path),
  );
  const treeSizes = await deps.disk.usedBytes(paths);
  const measurements = { treeSizes, layers: groupWritableLayers(await deps.runtime.listWrites()) };
  const usages = new Map<string, PodUsage>();
  for (const measured of measuredPods) {
    usages.set(measured.pod.metadata.uid ?? "", await measurePod(deps, measured, measurements));
  }
  return usages;
}

const DISK_CHECK_INTERVAL_MS = 2000;

export interface StorageDeps extends MeasureDeps {
  readonly pods: Cache<Pod>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly growths?: Growths;
  readonly evict: (uid: string, message: string) => void;
}

function computeTotalHeadroom(pods: readonly Pod[], usages: ReadonlyMap<string, PodUsage>): number {
  const headrooms = pods.flatMap((pod) => {
    const usage = usages.get(pod.metadata.uid ?? "");
    return usage === undefined ? [] : [computeHeadroomBytes(pod, usage)];
  });
  return Math.min(Number.MAX_SAFE_INTEGER, ...headrooms);
}

function addGrowth(
  usages: ReadonlyMap<string, PodUsage>,
  growths: ReadonlyMap<string, ReadonlyMap<string, number>> = new Map(),
): ReadonlyMap<string, PodUsage> {
  const usagesWithGrowth = [...usages].map(([uid, usage]) => {
    return [uid, { ...usage, growth: growths.get(uid) ?? new Map<string, number>() }] as const;
  });
  return new Map(usagesWithGrowth);
}

async function walk(deps: StorageDeps, disk: DiskSpace): Promise<Walk> {
  const pods = deps.pods.list().filter((pod) => !isPodFinished(pod));
  const atMs = deps.clock.monotonicMs();
  const usages = await measurePods(deps, pods);
  const growths = await deps.growths?.measure();
  const evictions = pods.flatMap((pod) => {
    const { uid = "" } = pod.metadata;
    const usage = usages.get(uid);
    const message = usage === undefined ? undefined : findLimitViolation(pod, usage);
    return message === undefined ? [] : [{ uid, message }];
  });
  const victim = evictions.length > 0 ? undefined : selectVictim(addGrowth(usages, growths), disk);
  if (victim !== undefined) deps.growths?.resetGrowth(victim.uid);
  for (const { uid, message } of victim === undefined ? evictions : [victim]) {
    deps.log.warn("pod is evicted", { uid, reason: message });
    deps.evict(uid, message);
  }
  return { atMs, freeBytes: disk.freeBytes, headroomBytes: computeTotalHeadroom(pods, usages) };
}

export async function checkStorage(
  deps: StorageDeps,
  previousWalk: Walk | undefined,
): Promise<Walk | undefined> {
  if (deps.pods.list().every(isPodFinished)) return undefined;
  const disk = await deps.files.readSpace(deps.node.podsDir);
  const currentSpace = { ...disk, atMs: deps.clock.monotonicMs() };
  return isWalkDue(previousWalk, currentSpace) ? walk(deps, disk) : previousWalk;
}

export async function enforceStorageLimits(deps: StorageDeps, signal: AbortSignal): Promise<void> {
  let previousWalk: Walk | undefined;
  while (!signal.aborted) {
    try {
      previousWalk = await checkStorage(deps, previousWalk);
    } catch (error) {
      deps.log.warn("storage not measured", { reason: messageOf(error) });
    }
    await deps.clock.sleep(DISK_CHECK_INTERVAL_MS, signal).catch(() => undefined);
  }
}
