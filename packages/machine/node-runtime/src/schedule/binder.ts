// SPDX-License-Identifier: Apache-2.0
// Gives pods that have no node to this one, when it has room for them and their claims allow it; ends those that its taints
// do not let stay.
import {
  isPodFinished,
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
  type EventRecorder,
  type KubeClient,
  type LoopWatch,
  type Next,
  type Queue,
  waitForCaches,
} from "@patchbay/kube";
import type { Cache, Change, Clock, Logger } from "@patchbay/core/ports";
import { podClaimsOf, SELECTED_NODE, type StorageCaches } from "../claims/index.ts";
import { runEvictor } from "./evictor.ts";
import { whyNotPlaced } from "./placement.ts";

/** The API server as the account that binds sees it, and the node that pods are bound to. */
export interface BinderDeps {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  readonly nodeName: string;
  readonly storage: StorageCaches;
  readonly watch?: LoopWatch;
}

/** What the binder knows of pods and of the node. */
interface Board {
  /** All pods, by the node that they name: {@link BY_NODE}. */
  readonly pods: Cache<Pod>;
  readonly nodes: Cache<KubeNode>;
  /** Uids of pods that were bound just now; the watch has not told of it yet. */
  readonly bound: Set<string>;
}

const BY_NODE = "node";

async function bind(deps: BinderDeps, { bound }: Board, pod: Pod): Promise<void> {
  const { namespace = "", name, uid = "" } = pod.metadata;
  const path = ["namespaces", namespace, "pods", name, "binding"].map(encodeURIComponent).join("/");
  const body = {
    apiVersion: "v1",
    kind: "Binding",
    metadata: { name, namespace, uid },
    target: { apiVersion: "v1", kind: "Node", name: deps.nodeName },
  };
  bound.add(uid);
  try {
    await deps.client.requestRaw({ method: "POST", path: `/api/v1/${path}`, body });
    deps.log.info("pod bound", { pod: `${namespace}/${name}` });
  } catch (error) {
    bound.delete(uid);
    // Bound by another one, or gone: the watch is about to say so.
    if (!isAppError(error, "KUBE_CONFLICT") && !isAppError(error, "KUBE_NOT_FOUND")) throw error;
  }
}

async function refuse(deps: BinderDeps, pod: Pod, message: string): Promise<void> {
  const before = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (before?.message === message) return;
  deps.recorder.record(pod, { type: "Warning", reason: "FailedScheduling", message });
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
async function bindWithClaims(deps: BinderDeps, board: Board, pod: Pod): Promise<Next> {
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
  if (plan.areBound) await bind(deps, board, pod);
  return plan.lookAgainMs === undefined ? done() : after(plan.lookAgainMs);
}

/** Pods that hold the node's resources, whether or not a watch has told so. */
function placedPods({ pods, bound }: Board, nodeName: string): readonly Pod[] {
  const waiting = pods.listBy(BY_NODE, "");
  const assumed = waiting.filter(({ metadata }) => bound.has(metadata.uid ?? ""));
  return [...pods.listBy(BY_NODE, nodeName), ...assumed];
}

function isWaiting({ metadata, spec }: Pod, { bound }: Board): boolean {
  const hasNode = (spec.nodeName ?? "") !== "" || bound.has(metadata.uid ?? "");
  return !hasNode && metadata.deletionTimestamp === undefined;
}

async function bindOrRefuse(deps: BinderDeps, board: Board, key: string): Promise<Next> {
  const pod = board.pods.find(parseKey(key));
  const node = board.nodes.find({ name: deps.nodeName });
  // Without the node: its arrival wakes.
  if (pod === undefined || node === undefined || !isWaiting(pod, board)) return done();
  const problem = whyNotPlaced(pod, node, placedPods(board, deps.nodeName));
  if (problem === undefined) return bindWithClaims(deps, board, pod);
  await refuse(deps, pod, problem);
  return done();
}

/** Whether the change may have given back something of a node. */
function frees(change: Change<Pod>): boolean {
  const before = change.kind === "added" ? undefined : change.previous;
  if (before === undefined || isPodFinished(before)) return false;
  const isHeld = (before.spec.nodeName ?? "") !== "";
  return isHeld && (change.kind === "deleted" || isPodFinished(change.current));
}

/** First come, first served. */
function byAge({ metadata: one }: Pod, { metadata: other }: Pod): number {
  const [first = "", second = ""] = [one.creationTimestamp, other.creationTimestamp];
  return first === second ? 0 : first < second ? -1 : 1;
}

/** What a change of pods, the node or claims makes worth another look. */
function follow(deps: BinderDeps, { pods, nodes, bound }: Board, queue: Queue): void {
  const wakeAll = (): void => {
    const waiting = [...pods.listBy(BY_NODE, "")].sort(byAge);
    for (const pod of waiting) queue.add(printKey(keyOf(pod)));
  };
  pods.onChange((change) => {
    const { metadata, spec } = change.kind === "deleted" ? change.previous : change.current;
    const isSettled = change.kind === "deleted" || (spec.nodeName ?? "") !== "";
    if (isSettled) bound.delete(metadata.uid ?? "");
    else queue.add(printKey(keyOf(change.current)));
    if (frees(change)) wakeAll();
  });
  for (const cache of [nodes, deps.storage.claims, deps.storage.classes]) cache.onChange(wakeAll);
}

/** Binds until the signal is aborted. */
export async function runBinder(deps: BinderDeps, signal: AbortSignal): Promise<void> {
  const { client, clock, log: logger, nodeName } = deps;
  const queue = createQueue({ clock });
  const indexes = { [BY_NODE]: ({ spec }: Pod) => [spec.nodeName ?? ""] };
  const itself = client.reflect(NODES, { fieldSelector: `metadata.name=${nodeName}` });
  const pods = createCache(client.reflect(PODS), { logger, indexes });
  const nodes = createCache(itself, { logger });
  const board: Board = { pods, nodes, bound: new Set() };
  follow(deps, board, queue);
  for (const cache of [pods, nodes]) cache.start(signal);
  // Before all pods are known the node looks emptier than it is.
  await waitForCaches([pods, nodes], signal);
  const reconcile = (key: string): Promise<Next> => bindOrRefuse(deps, board, key);
  await Promise.all([
    runReconciler({ ...deps, name: "binder", queue, reconcile }, signal),
    runEvictor({ ...deps, pods, nodes }, signal),
  ]);
}
