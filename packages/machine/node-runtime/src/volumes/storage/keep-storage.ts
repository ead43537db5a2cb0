// SPDX-License-Identifier: Apache-2.0
// Ends pods that use more of the disk than they may. The disk is asked often how full it is, which costs nothing; trees are
// walked only when that says that somebody may have reached a limit.
import { isPodFinished, type Pod } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import type { Cache, Clock, Logger } from "@patchbay/core/ports";
import {
  headroomOf,
  isWalkDue,
  pressureVictim,
  storageFault,
  type DiskSpace,
  type PodUsage,
  type Walk,
} from "./limits.ts";
import type { Growths } from "./growth.ts";
import { measurePods, type MeasureDeps } from "./measure.ts";

/** How often the disk is asked how full it is; milliseconds. */
const LOOK_MS = 2000;

/** The machine, the pods of this node, and who ends one. */
export interface StorageDeps extends MeasureDeps {
  readonly pods: Cache<Pod>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of what outlives pods; absent: nothing does. */
  readonly growths?: Growths;
  /** Ends the pod for ever: phase Failed, reason Evicted, with this message. */
  readonly evict: (uid: string, message: string) => void;
}

function headroomOfAll(pods: readonly Pod[], usages: ReadonlyMap<string, PodUsage>): number {
  const all = pods.flatMap((pod) => {
    const usage = usages.get(pod.metadata.uid ?? "");
    return usage === undefined ? [] : [headroomOf(pod, usage)];
  });
  return Math.min(Number.MAX_SAFE_INTEGER, ...all);
}

function withGrowth(
  usages: ReadonlyMap<string, PodUsage>,
  growths: ReadonlyMap<string, ReadonlyMap<string, number>> = new Map(),
): ReadonlyMap<string, PodUsage> {
  const all = [...usages].map(([uid, usage]) => {
    return [uid, { ...usage, growth: growths.get(uid) ?? new Map<string, number>() }] as const;
  });
  return new Map(all);
}

async function walk(deps: StorageDeps, disk: DiskSpace): Promise<Walk> {
  const pods = deps.pods.list().filter((pod) => !isPodFinished(pod));
  const atMs = deps.clock.monotonicMs();
  const usages = await measurePods(deps, pods);
  const growths = await deps.growths?.measure();
  const evictions = pods.flatMap((pod) => {
    const { uid = "" } = pod.metadata;
    const usage = usages.get(uid);
    const message = usage === undefined ? undefined : storageFault(pod, usage);
    return message === undefined ? [] : [{ uid, message }];
  });
  const victim =
    evictions.length > 0 ? undefined : pressureVictim(withGrowth(usages, growths), disk);
  if (victim !== undefined) deps.growths?.forgive(victim.uid);
  for (const { uid, message } of victim === undefined ? evictions : [victim]) {
    deps.log.warn("pod is evicted", { uid, reason: message });
    deps.evict(uid, message);
  }
  return { atMs, freeBytes: disk.freeBytes, headroomBytes: headroomOfAll(pods, usages) };
}

/** One look: what was found when the trees were walked last, then or now. */
export async function lookAtStorage(
  deps: StorageDeps,
  last: Walk | undefined,
): Promise<Walk | undefined> {
  if (deps.pods.list().every(isPodFinished)) return undefined;
  const disk = await deps.files.space(deps.node.podsDir);
  const now = { ...disk, atMs: deps.clock.monotonicMs() };
  return isWalkDue(last, now) ? walk(deps, disk) : last;
}

/** Looks until aborted. */
export async function keepStorageLimits(deps: StorageDeps, signal: AbortSignal): Promise<void> {
  let last: Walk | undefined;
  while (!signal.aborted) {
    try {
      last = await lookAtStorage(deps, last);
    } catch (error) {
      deps.log.warn("storage not measured", { reason: messageOf(error) });
    }
    await deps.clock.sleep(LOOK_MS, signal).catch(() => undefined); // aborted: the loop sees it
  }
}
