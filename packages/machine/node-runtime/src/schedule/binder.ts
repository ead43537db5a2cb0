// SPDX-License-Identifier: Apache-2.0
// Gives pods that have no node to one that has room for them and that their words and claims allow; ends those that their
// node's taints do not let stay.
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
import {
  podClaimsOf,
  SELECTED_NODE,
  type ClaimLookup,
  type StorageCaches,
} from "../claims/index.ts";
import { volumeProblem } from "./claim-place.ts";
import { runEvictor } from "./evictor.ts";
import type { PlacedPod } from "./neighbours.ts";
import { placePod } from "./placement.ts";

/** The API server as the account that binds sees it. */
export interface BinderDeps {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  /** The node whose disk claims get their volumes on. */
  readonly nodeName: string;
  readonly storage: StorageCaches;
  readonly watch?: LoopWatch;
}

/** What the binder knows of pods and of nodes. */
interface Known {
  /** All pods, by the node that they name: {@link BY_NODE}. */
  readonly pods: Cache<Pod>;
  readonly nodes: Cache<KubeNode>;
  /** Nodes of pods that were bound just now, by uid; the watch has not told of it yet. */
  readonly bound: Map<string, string>;
}

const BY_NODE = "node";

async function bind(
  deps: BinderDeps,
  { bound }: Known,
  { pod, nodeName }: { readonly pod: Pod; readonly nodeName: string },
): Promise<void> {
  const { namespace = "", name, uid = "" } = pod.metadata;
  const path = ["namespaces", namespace, "pods", name, "binding"].map(encodeURIComponent).join("/");
  const body = {
    apiVersion: "v1",
    kind: "Binding",
    metadata: { name, namespace, uid },
    target: { apiVersion: "v1", kind: "Node", name: nodeName },
  };
  bound.set(uid, nodeName);
  try {
    await deps.client.requestRaw({ method: "POST", path: `/api/v1/${path}`, body });
    deps.log.info("pod bound", { pod: `${namespace}/${name}`, node: nodeName });
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
  const isUnchanged = before?.status === "False";
  const since = isUnchanged ? before.lastTransitionTime : undefined;
  const condition = {
    type: "PodScheduled",
    status: "False",
    reason: "Unschedulable",
    message,
    lastTransitionTime: since ?? printTime(deps.clock.now()),
  };
  // A merge patch replaces the whole list: the version keeps it from undoing what another writer adds meanwhile.
  const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== condition.type);
  const { resourceVersion } = pod.metadata;
  const fields = { metadata: { resourceVersion }, status: { conditions: [...others, condition] } };
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

function lookupOf({ claims, classes, volumes }: StorageCaches, pod: Pod): ClaimLookup {
  const { namespace = "" } = pod.metadata;
  return {
    findClaim: (name) => claims.find({ namespace, name }),
    findClass: (name) => classes.find({ name }),
    findVolume: (name) => volumes.find({ name }),
  };
}

/** Binds the pod if its claims let it be; those that wait for a pod are begun, and what they lack is told. */
async function bindWithClaims(
  deps: BinderDeps,
  known: Known,
  placed: { readonly pod: Pod; readonly nodeName: string },
): Promise<Next> {
  const { pod } = placed;
  const plan = podClaimsOf(pod, lookupOf(deps.storage, pod), deps.clock.now());
  if (plan.problems.length > 0) await refuse(deps, pod, plan.problems.join("; "));
  for (const claim of plan.toSelect) await select(deps, claim);
  if (plan.areBound) await bind(deps, known, placed);
  return plan.lookAgainMs === undefined ? done() : after(plan.lookAgainMs);
}

function nodeNameOf({ metadata, spec }: Pod, { bound }: Known): string {
  return spec.nodeName === undefined || spec.nodeName === ""
    ? (bound.get(metadata.uid ?? "") ?? "")
    : spec.nodeName;
}

function isWaiting(pod: Pod, known: Known): boolean {
  return nodeNameOf(pod, known) === "" && pod.metadata.deletionTimestamp === undefined;
}

/** Pods that hold something of a node, whether or not a watch has told so. */
function placedPods(known: Known): readonly PlacedPod[] {
  const left = known.pods.list().filter((pod) => !isPodFinished(pod));
  return left.flatMap((pod) => {
    const node = known.nodes.find({ name: nodeNameOf(pod, known) });
    return node === undefined ? [] : [{ pod, node }];
  });
}

async function bindOrRefuse(deps: BinderDeps, known: Known, key: string): Promise<Next> {
  const pod = known.pods.find(parseKey(key));
  const nodes = known.nodes.list();
  // Without a node: the first one's arrival wakes.
  if (pod === undefined || !isWaiting(pod, known) || nodes.length === 0) return done();
  const at = { home: deps.nodeName, lookup: lookupOf(deps.storage, pod) };
  const placement = placePod(pod, {
    nodes,
    placed: placedPods(known),
    volumeProblem: (node) => volumeProblem(pod, node, at),
  });
  if ("nodeName" in placement) return bindWithClaims(deps, known, { pod, ...placement });
  await refuse(deps, pod, placement.problem);
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

/** What a change of pods, nodes or claims makes worth another look. */
function follow(deps: BinderDeps, { pods, nodes, bound }: Known, queue: Queue): void {
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
  const { client, clock, log: logger } = deps;
  const queue = createQueue({ clock });
  const indexes = { [BY_NODE]: ({ spec }: Pod) => [spec.nodeName ?? ""] };
  const pods = createCache(client.reflect(PODS), { logger, indexes });
  const nodes = createCache(client.reflect(NODES), { logger });
  const known: Known = { pods, nodes, bound: new Map() };
  follow(deps, known, queue);
  for (const cache of [pods, nodes]) cache.start(signal);
  // Before all pods are known the nodes look emptier than they are.
  await waitForCaches([pods, nodes], signal);
  const reconcile = (key: string): Promise<Next> => bindOrRefuse(deps, known, key);
  await Promise.all([
    runReconciler({ ...deps, name: "binder", queue, reconcile }, signal),
    runEvictor({ ...deps, pods, nodes }, signal),
  ]);
}
