// SPDX-License-Identifier: Apache-2.0
import {
  createQueue,
  keyOf,
  parseKey,
  printKey,
  runReconciler,
  type LoopWatch,
  type LostWriteReporter,
  type Next,
  type ReconcileMetrics,
} from "@patchbay/kube";
import { KeyedMutex } from "@patchbay/base";
import { createBatchStats } from "./cni-metrics.ts";
import type { Deps } from "./deps.ts";
import { createFailures } from "./failures.ts";
import { runLeftoverLoop } from "./reconcilers/leftovers.ts";
import { runUpkeepLoop } from "./reconcilers/upkeep/upkeep.ts";
import { reconcilePod } from "./reconcilers/pod/index.ts";
import { loadTrackedPods } from "./tracked-pods.ts";
import { serializeInputs, wakePods } from "./wake.ts";

export interface LoopParts extends Omit<
  Deps,
  "failures" | "trackedPods" | "podMutex" | "onProgress"
> {
  readonly metrics?: ReconcileMetrics;
  readonly watch?: LoopWatch;
  readonly concurrency: number;
  readonly serveRuntime?: (
    deps: Deps & { readonly wake: (key: string) => void },
    signal: AbortSignal,
  ) => Promise<void>;
}

/** Reconciles all pods, including deleted pods with journal rows. Then reconciles each pod that changes, until the signal is aborted. */
export async function runLoop(parts: LoopParts, signal: AbortSignal): Promise<void> {
  const { pods, journal, clock, log, concurrency } = parts;
  const trackedPods = await loadTrackedPods(journal, log);
  const readInputs = (key: string): string => serializeInputs(pods.find(parseKey(key)));
  // The queue is fair between namespaces, so that a namespace with many pods does not delay the pods of other namespaces.
  const toGroup = (key: string): string => parseKey(key).namespace ?? "";
  const queue = createQueue({ clock, concurrency, readInputs, toGroup });
  const batchStats = createBatchStats(parts, () => queue.length === 0);
  const state = { trackedPods, podMutex: new KeyedMutex(), failures: createFailures(clock) };
  const deps = { ...parts, ...state, cni: batchStats.cni };
  wakePods(queue, parts);
  for (const pod of pods.list()) queue.add(printKey(keyOf(pod)));
  for (const key of trackedPods.keys()) queue.add(key);
  const reconcile = (key: string, _: AbortSignal, onProgress: () => void): Promise<Next> =>
    batchStats.runPass(key, () => reconcilePod(key, { ...deps, onProgress }));
  const wake = (key: string): void => {
    queue.add(key);
  };
  const lostWrites: LostWriteReporter = {
    events: parts.events,
    find: (_resource, key) => pods.find(key),
  };
  await Promise.all([
    runReconciler({ ...parts, name: "pod", queue, reconcile, lostWrites }, signal),
    runUpkeepLoop(deps, signal),
    ...(parts.mode === "alone" ? [] : [runLeftoverLoop(deps, signal)]),
    parts.serveRuntime?.({ ...deps, wake }, signal),
  ]);
}
