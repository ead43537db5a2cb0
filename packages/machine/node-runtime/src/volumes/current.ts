// SPDX-License-Identifier: Apache-2.0
// Keeps what volumes show as it is now, while their pods run: objects, labels, annotations, tokens.
import { isPodFinished, type Pod } from "@patchbay/api";
import { isAppError } from "@patchbay/core";
import { after, createQueue, done, runReconciler, type LoopWatch, type Next } from "@patchbay/kube";
import type { Cache } from "@patchbay/core/ports";
import { isShown } from "./content/references.ts";
import type { VolumeDeps } from "./deps.ts";
import { podDirectory } from "./layout.ts";
import { placeOf } from "./prepare.ts";
import { removeLocked } from "./remove.ts";
import { readShown, showVolume } from "./show.ts";

/** Reason in the status of a pod that had to go. Source: Kubernetes kubelet eviction. */
const EVICTED = "Evicted";
/** How many pods are worked on at once. */
const CONCURRENCY = 2;

/** The pods of this node, and by which index of the cache one is found by its uid. */
export interface CurrentPods {
  readonly pods: Cache<Pod>;
  readonly uidIndex: string;
  readonly watch?: LoopWatch;
}

function uidOf({ metadata }: Pod): string {
  return metadata.uid ?? "";
}

/** What was taken away after the pod had it stays as it was. Source: Kubernetes kubelet. */
async function showUnlessMissing(deps: VolumeDeps, pod: Pod): Promise<void> {
  try {
    const shown = await readShown(deps, pod);
    for (const volume of (pod.spec.volumes ?? []).filter(isShown)) {
      const path = placeOf(deps, pod, volume);
      // One that is not there is being made for the first time, by whoever starts the pod.
      if (path === undefined || !(await deps.files.exists(path))) continue;
      const isChanged = await showVolume(deps, shown, { volume, path });
      if (isChanged) deps.log.info("volume is current", { uid: uidOf(pod), volume: volume.name });
    }
  } catch (error) {
    if (!isAppError(error, "RUNTIME_VOLUME_FAILED")) throw error;
    deps.log.warn("volume stays as it was", { uid: uidOf(pod), reason: error.message });
  }
}

async function keepOne(deps: VolumeDeps, from: CurrentPods, uid: string): Promise<Next> {
  const [pod] = from.pods.listBy(from.uidIndex, uid);
  if (pod === undefined || isPodFinished(pod)) {
    deps.objects.hold(uid, "", []);
    deps.tokens.forget(uid);
    // Its end was to free the disk: else the next pod would have to go, though the object of this one may stay for long.
    if (pod?.status?.reason === EVICTED) await removeLocked(deps, uid);
    return done();
  }
  const isPrepared = await deps.files.exists(podDirectory(deps.node.podsDir, uid));
  if (!isPrepared || !(pod.spec.volumes ?? []).some(isShown)) return done();
  await showUnlessMissing(deps, pod);
  const dueMs = deps.tokens.dueMs(uid);
  return dueMs === undefined ? done() : after(dueMs);
}

/** Follows objects, pods and the ends of tokens until aborted. */
export async function keepVolumesCurrent(
  deps: VolumeDeps,
  from: CurrentPods,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log, objects } = deps;
  const queue = createQueue({ clock, concurrency: CONCURRENCY });
  const stopObjects = objects.onChange((uid) => {
    queue.add(uid);
  });
  const stopPods = from.pods.onChange((change) => {
    queue.add(uidOf(change.kind === "deleted" ? change.previous : change.current));
  });
  for (const pod of from.pods.list()) queue.add(uidOf(pod));
  const reconcile = (uid: string): Promise<Next> =>
    deps.mutex.runExclusive(uid, () => keepOne(deps, from, uid));
  try {
    const loop = { name: "volumes", queue, reconcile, log, clock };
    await runReconciler({ ...loop, ...(from.watch && { watch: from.watch }) }, signal);
  } finally {
    stopObjects();
    stopPods();
  }
}
