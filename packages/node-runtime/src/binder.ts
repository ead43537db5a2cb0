// SPDX-License-Identifier: Apache-2.0
// Gives pods that have no node to this one, when their node selector and their claims allow it.
import {
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PODS,
  type KubeNode,
  type PersistentVolumeClaim,
  type Pod,
} from "@patchbay/api";
import { isAppError } from "@patchbay/core";
import {
  after,
  createCache,
  createQueue,
  done,
  keyOf,
  parseKey,
  printKey,
  printTime,
  runReconciler,
  type KubeClient,
  type Next,
} from "@patchbay/kube";
import type { Cache, Clock, Logger } from "@patchbay/ports";
import { podClaimsOf, SELECTED_NODE, type StorageCaches } from "./claims/index.ts";

/** The API server as the account that binds sees it, and the node that pods are bound to. */
export interface BinderDeps {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly nodeName: string;
  readonly storage: StorageCaches;
}

/** Labels that the pod asks for and the node does not have, as text; undefined when it fits. */
export function selectorProblem(pod: Pod, node: KubeNode): string | undefined {
  const labels = node.metadata.labels ?? {};
  const missing = Object.entries(pod.spec.nodeSelector ?? {})
    .filter(([label, value]) => labels[label] !== value)
    .map(([label, value]) => `${label}=${value}`)
    .sort();
  if (missing.length === 0) return undefined;
  return `node ${node.metadata.name} does not have ${missing.join(", ")}`;
}

async function bind(deps: BinderDeps, pod: Pod): Promise<void> {
  const { namespace = "", name, uid } = pod.metadata;
  const path = ["namespaces", namespace, "pods", name, "binding"].map(encodeURIComponent).join("/");
  const body = {
    apiVersion: "v1",
    kind: "Binding",
    metadata: { name, namespace, uid },
    target: { apiVersion: "v1", kind: "Node", name: deps.nodeName },
  };
  try {
    await deps.client.requestRaw({ method: "POST", path: `/api/v1/${path}`, body });
    deps.log.info("pod bound", { pod: `${namespace}/${name}` });
  } catch (error) {
    // Bound by another one, or gone: the watch is about to say so.
    if (!isAppError(error, "KUBE_CONFLICT") && !isAppError(error, "KUBE_NOT_FOUND")) throw error;
  }
}

async function refuse(deps: BinderDeps, pod: Pod, message: string): Promise<void> {
  const before = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (before?.message === message) return;
  const condition = {
    type: "PodScheduled",
    status: "False",
    reason: "Unschedulable",
    message,
    lastTransitionTime: printTime(deps.clock.now()),
  };
  const fields = { status: { conditions: [condition] } };
  const patch = { type: "merge", fields } as const;
  await deps.client.store.patch(PODS, keyOf(pod), patch, { subresource: "status" });
}

/** From now on the claim is for this node; whoever makes its volume follows. */
async function select({ client, nodeName }: BinderDeps, claim: PersistentVolumeClaim) {
  const { resourceVersion } = claim.metadata;
  const annotations = { [SELECTED_NODE]: nodeName };
  const patch = { type: "merge", fields: { metadata: { resourceVersion, annotations } } } as const;
  await client.store.patch(PERSISTENT_VOLUME_CLAIMS, keyOf(claim), patch);
}

/** Binds the pod if its claims let it be; those that wait for a pod are begun, and what they lack is told. */
async function bindWithClaims(deps: BinderDeps, pod: Pod): Promise<Next> {
  const { claims, classes, volumes } = deps.storage;
  const { namespace = "" } = pod.metadata;
  const lookup = {
    findClaim: (name: string) => claims.find({ namespace, name }),
    findClass: (name: string) => classes.find({ name }),
    findVolume: (name: string) => volumes.find({ name }),
  };
  const plan = podClaimsOf(pod, lookup, deps.clock.now());
  if (plan.problems.length > 0) await refuse(deps, pod, plan.problems.join("; "));
  for (const claim of plan.toSelect) await select(deps, claim);
  if (plan.areBound) await bind(deps, pod);
  return plan.lookAgainMs === undefined ? done() : after(plan.lookAgainMs);
}

async function bindOrRefuse(
  deps: BinderDeps,
  pod: Pod | undefined,
  node: KubeNode | undefined,
): Promise<Next> {
  // Without the node: its arrival wakes.
  if (pod === undefined || node === undefined) return done();
  if (pod.metadata.deletionTimestamp !== undefined) return done();
  const problem = selectorProblem(pod, node);
  if (problem === undefined) return bindWithClaims(deps, pod);
  await refuse(deps, pod, problem);
  return done();
}

/** Binds until the signal is aborted. */
export async function runBinder(deps: BinderDeps, signal: AbortSignal): Promise<void> {
  const { client, clock, log, nodeName } = deps;
  const queue = createQueue({ clock });
  const unbound = client.reflect(PODS, { fieldSelector: "spec.nodeName=" });
  const pods: Cache<Pod> = startCache(createCache(unbound, { logger: log }), signal);
  const itself = client.reflect(NODES, { fieldSelector: `metadata.name=${nodeName}` });
  const nodes: Cache<KubeNode> = startCache(createCache(itself, { logger: log }), signal);
  pods.onChange((change) => {
    if (change.kind !== "deleted") queue.add(printKey(keyOf(change.current)));
  });
  const wakeAll = (): void => {
    for (const pod of pods.list()) queue.add(printKey(keyOf(pod)));
  };
  for (const cache of [nodes, deps.storage.claims, deps.storage.classes]) cache.onChange(wakeAll);
  const reconcile = (key: string): Promise<Next> =>
    bindOrRefuse(deps, pods.find(parseKey(key)), nodes.find({ name: nodeName }));
  await runReconciler({ name: "binder", queue, reconcile, log, clock }, signal);
}

function startCache<T extends { start(signal: AbortSignal): void }>(
  cache: T,
  signal: AbortSignal,
): T {
  cache.start(signal);
  return cache;
}
