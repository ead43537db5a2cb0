// SPDX-License-Identifier: Apache-2.0
import { isPodFinished, type Pod } from "@patchbay/api/kubernetes";
import { isAppError, type Clock } from "@patchbay/base";
import { after, createQueue, done, runReconciler, type LoopWatch, type Next } from "@patchbay/kube";
import type { Cache } from "@patchbay/core/interfaces";
import { isApiBacked } from "./content/references.ts";
import type { VolumeDeps } from "./deps.ts";
import { buildPodDirectory } from "./layout.ts";
import { findVolumePath, removeLocked, readVolumeContents, publishVolume } from "./pod-volumes.ts";

/** Status reason of evicted pods, which must free the disk at once. Source: kubelet pkg/kubelet/eviction. */
const EVICTED_REASON = "Evicted";
const CONCURRENCY = 2;
const POD_INTERVAL_MS = 1000;
const NAMESPACE_PAUSE_FACTOR = 4;
const NAMESPACE_PAUSE_MAX_MS = 5000;

interface CurrentPods {
  readonly pods: Cache<Pod>;
  readonly uidIndex: string;
  readonly watch?: LoopWatch;
}

function uidOf({ metadata }: Pod): string {
  return metadata.uid ?? "";
}

async function logVolumeFailure(
  deps: VolumeDeps,
  uid: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!isAppError(error, "RUNTIME_VOLUME_FAILED")) throw error;
    deps.log.warn("volume not updated", { uid, reason: error.message });
  }
}

/** Refreshes each volume, even if refreshing another volume fails: a missing ConfigMap must not prevent new tokens. Source: kubelet. */
async function refreshPod(deps: VolumeDeps, pod: Pod): Promise<void> {
  const uid = uidOf(pod);
  await logVolumeFailure(deps, uid, async () => {
    const contents = await readVolumeContents(deps, pod);
    for (const volume of (pod.spec.volumes ?? []).filter(isApiBacked)) {
      const path = findVolumePath(deps, pod, volume);
      // Ignores volumes that do not exist yet. They are created with current contents when the pod starts.
      if (path === undefined || !(await deps.files.exists(path))) continue;
      await logVolumeFailure(deps, uid, async () => {
        const isChanged = await publishVolume(deps, contents, { volume, path });
        if (isChanged) deps.log.info("volume updated", { uid, volume: volume.name });
      });
    }
  });
}

/** Refreshes each pod at most once per second. Each refresh delays the next in its namespace by four times its own duration. */
class RefreshPace {
  readonly #clock: Clock;
  readonly #podDueMs = new Map<string, number>();
  readonly #namespaceDueMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  waitMs(pod: Pod): number {
    const dueMs = [
      this.#podDueMs.get(uidOf(pod)) ?? 0,
      this.#namespaceDueMs.get(pod.metadata.namespace ?? "") ?? 0,
    ];
    return Math.max(...dueMs) - this.#clock.monotonicMs();
  }

  async run(pod: Pod, refresh: () => Promise<void>): Promise<void> {
    const startMs = this.#clock.monotonicMs();
    try {
      await refresh();
    } finally {
      const endMs = this.#clock.monotonicMs();
      const pauseMs = Math.min((endMs - startMs) * NAMESPACE_PAUSE_FACTOR, NAMESPACE_PAUSE_MAX_MS);
      for (const [namespace, dueMs] of this.#namespaceDueMs)
        if (dueMs <= endMs) this.#namespaceDueMs.delete(namespace);
      this.#namespaceDueMs.set(pod.metadata.namespace ?? "", endMs + pauseMs);
      this.#podDueMs.set(uidOf(pod), endMs + POD_INTERVAL_MS);
    }
  }

  forget(uid: string): void {
    this.#podDueMs.delete(uid);
  }
}

interface RefreshState extends CurrentPods {
  readonly pace: RefreshPace;
}

async function reconcilePod(deps: VolumeDeps, state: RefreshState, uid: string): Promise<Next> {
  const [pod] = state.pods.listBy(state.uidIndex, uid);
  if (pod === undefined || isPodFinished(pod)) {
    state.pace.forget(uid);
    deps.objects.setReferences(uid, "", []);
    deps.tokens.forget(uid);
    if (pod?.status?.reason === EVICTED_REASON) await removeLocked(deps, uid);
    return done();
  }
  const isPrepared = await deps.files.exists(buildPodDirectory(deps.node.podsDir, uid));
  if (!isPrepared || !(pod.spec.volumes ?? []).some(isApiBacked)) return done();
  const waitMs = state.pace.waitMs(pod);
  if (waitMs > 0) return after(waitMs);
  await state.pace.run(pod, () => refreshPod(deps, pod));
  const dueMs = deps.tokens.dueMs(uid);
  return dueMs === undefined ? done() : after(dueMs);
}

export async function refreshVolumes(
  deps: VolumeDeps,
  currentPods: CurrentPods,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log, objects } = deps;
  const queue = createQueue({ clock, concurrency: CONCURRENCY });
  const stopObjects = objects.onChange((uid) => {
    queue.add(uid);
  });
  const stopPods = currentPods.pods.onChange((change) => {
    queue.add(uidOf(change.kind === "deleted" ? change.previous : change.current));
  });
  for (const pod of currentPods.pods.list()) queue.add(uidOf(pod));
  const state = { ...currentPods, pace: new RefreshPace(clock) };
  const reconcile = (uid: string): Promise<Next> =>
    deps.mutex.runExclusive(uid, () => reconcilePod(deps, state, uid));
  try {
    const loop = { name: "volumes", queue, reconcile, log, clock };
    await runReconciler(
      { ...loop, ...(currentPods.watch && { watch: currentPods.watch }) },
      signal,
    );
  } finally {
    stopObjects();
    stopPods();
  }
}
