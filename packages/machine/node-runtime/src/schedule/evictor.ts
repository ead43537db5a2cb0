// SPDX-License-Identifier: Apache-2.0
// Ends pods that a taint of their node does not let stay. Source: Kubernetes taint-eviction-controller. From when it was seen
// here: a restart of this process begins a pod's time anew.
import { isPodFinished, PODS, type KubeNode, type Pod } from "@patchbay/api";
import { isEqual } from "@patchbay/core";
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
import type { Cache, Clock, Logger } from "@patchbay/core/ports";
import { evictionOf } from "./taints.ts";

/** Whose pods are looked at, and who ends them. */
export interface EvictorDeps {
  readonly client: Pick<KubeClient, "store">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  /** All pods. */
  readonly pods: Cache<Pod>;
  readonly nodes: Cache<KubeNode>;
}

/** When a pod and a taint (its mark) were first seen together, milliseconds; by key of the pod. */
type Since = Map<string, { readonly mark: string; readonly firstMs: number }>;

/** The pod, where it has a node and is not ending; and what ends it. */
function findEviction({ pods, nodes }: EvictorDeps, key: string) {
  const pod = pods.find(parseKey(key));
  if (pod === undefined || isPodFinished(pod)) return undefined;
  const taints = nodes.find({ name: pod.spec.nodeName ?? "" })?.spec?.taints ?? [];
  if (pod.metadata.deletionTimestamp !== undefined) return undefined;
  const eviction = evictionOf(pod, taints);
  return eviction && { pod, ...eviction };
}

async function evictOrWait(deps: EvictorDeps, since: Since, key: string): Promise<Next> {
  const found = findEviction(deps, key);
  if (found === undefined) {
    since.delete(key);
    return done();
  }
  const { pod, taint, afterSeconds } = found;
  const mark = `${pod.metadata.uid ?? ""} ${taint.key}`;
  const nowMs = deps.clock.monotonicMs();
  const before = since.get(key);
  const firstMs = before?.mark === mark ? before.firstMs : nowMs;
  since.set(key, { mark, firstMs });
  const leftMs = firstMs + afterSeconds * 1000 - nowMs;
  if (leftMs > 0) return after(leftMs);
  const message = `Deleting pod: it does not tolerate the taint ${taint.key}:NoExecute of the node`;
  deps.recorder.record(pod, { type: "Normal", reason: "TaintManagerEviction", message });
  await deps.client.store.delete(PODS, keyOf(pod), { uid: pod.metadata.uid ?? "" });
  since.delete(key); // what is gone at once is not looked at again
  deps.log.info("pod evicted by a taint", { pod: key, taint: taint.key });
  return done();
}

/** Ends them until the signal is aborted. */
export async function runEvictor(deps: EvictorDeps, signal: AbortSignal): Promise<void> {
  const { clock, log, pods, nodes } = deps;
  const queue = createQueue({ clock });
  const since: Since = new Map();
  pods.onChange((change) => {
    if (change.kind !== "deleted") queue.add(printKey(keyOf(change.current)));
  });
  nodes.onChange((change) => {
    if (change.kind === "deleted") return;
    const before = change.kind === "updated" ? change.previous.spec?.taints : undefined;
    if (isEqual(before, change.current.spec?.taints)) return;
    for (const pod of pods.list()) queue.add(printKey(keyOf(pod)));
  });
  for (const pod of pods.list()) queue.add(printKey(keyOf(pod)));
  const reconcile = (key: string): Promise<Next> => evictOrWait(deps, since, key);
  await runReconciler({ name: "evictor", clock, log, queue, reconcile }, signal);
}
