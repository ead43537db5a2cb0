// SPDX-License-Identifier: Apache-2.0
// Evicts pods that do not tolerate a NoExecute taint. The toleration time starts again when this process restarts.
// Source: taint-eviction-controller of Kubernetes.
import { PODS } from "@patchbay/api";
import { isPodFinished, type KubeNode, type Pod } from "@patchbay/api/kubernetes";
import { isEqual, type Clock, type Logger } from "@patchbay/base";
import {
  after,
  createQueue,
  done,
  keyOf,
  parseKey,
  printKey,
  runReconciler,
  type EventRecorder,
  type KubeClient,
  type Next,
} from "@patchbay/kube";
import type { Cache } from "@patchbay/core/interfaces";
import { findTaintEviction } from "./taints.ts";

interface EvictorDeps {
  readonly client: Pick<KubeClient, "store">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  readonly pods: Cache<Pod>;
  readonly nodes: Cache<KubeNode>;
}

/** By pod key: the taint that evicts the pod, and the time of the monotonic clock at which this process first observed the taint. */
type FirstObservations = Map<string, { readonly id: string; readonly firstMs: number }>;

function findEviction({ pods, nodes }: EvictorDeps, key: string) {
  const pod = pods.find(parseKey(key));
  if (pod === undefined || isPodFinished(pod)) return undefined;
  const taints = nodes.find({ name: pod.spec.nodeName ?? "" })?.spec?.taints ?? [];
  if (pod.metadata.deletionTimestamp !== undefined) return undefined;
  const eviction = findTaintEviction(pod, taints);
  return eviction && { pod, ...eviction };
}

async function evictOrWait(
  deps: EvictorDeps,
  firstObservations: FirstObservations,
  key: string,
): Promise<Next> {
  const eviction = findEviction(deps, key);
  if (eviction === undefined) {
    firstObservations.delete(key);
    return done();
  }
  const { pod, taint, afterSeconds } = eviction;
  const id = `${pod.metadata.uid ?? ""} ${taint.key}`;
  const nowMs = deps.clock.monotonicMs();
  const previous = firstObservations.get(key);
  const firstMs = previous?.id === id ? previous.firstMs : nowMs;
  firstObservations.set(key, { id, firstMs });
  const remainingMs = firstMs + afterSeconds * 1000 - nowMs;
  if (remainingMs > 0) return after(remainingMs);
  const message = `Deleting pod: it does not tolerate the taint ${taint.key}:NoExecute of the node`;
  deps.recorder.record(pod, { type: "Normal", reason: "TaintManagerEviction", message });
  await deps.client.store.delete(PODS, keyOf(pod), { uid: pod.metadata.uid ?? "" });
  // Deletes the entry here, because a pod that is removed without a grace period causes no further pass.
  firstObservations.delete(key);
  deps.log.info("pod evicted by a taint", { pod: key, taint: taint.key });
  return done();
}

export async function runEvictor(deps: EvictorDeps, signal: AbortSignal): Promise<void> {
  const { clock, log, pods, nodes } = deps;
  const queue = createQueue({ clock });
  const firstObservations: FirstObservations = new Map();
  pods.onChange((change) => {
    if (change.kind !== "deleted") queue.add(printKey(keyOf(change.current)));
  });
  nodes.onChange((change) => {
    if (change.kind === "deleted") return;
    const previous = change.kind === "updated" ? change.previous.spec?.taints : undefined;
    if (isEqual(previous, change.current.spec?.taints)) return;
    for (const pod of pods.list()) queue.add(printKey(keyOf(pod)));
  });
  for (const pod of pods.list()) queue.add(printKey(keyOf(pod)));
  const reconcile = (key: string): Promise<Next> => evictOrWait(deps, firstObservations, key);
  await runReconciler({ name: "evictor", clock, log, queue, reconcile }, signal);
}
