// SPDX-License-Identifier: Apache-2.0
// Binds pods to nodes that have enough resources and satisfy the pods' affinity, tolerations and claims.
import {
  names,
  NAMESPACES,
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PODS,
  RESOURCE_CLAIM_TEMPLATES,
  RESOURCE_CLAIMS,
  type ResourceType,
} from "@patchbay/api";
import {
  isPodFinished,
  type KubeObject,
  type KubeNode,
  type PersistentVolumeClaim,
  type Pod,
  type ResourceClaim,
  type ResourceClaimTemplate,
} from "@patchbay/api/kubernetes";
import {
  isAppError,
  type Clock,
  type Logger,
  type Rate,
  RateLimiter,
  SHARE_KEYS,
} from "@patchbay/base";
import {
  after,
  createCache,
  createQueue,
  done,
  keyOf,
  ObjectWatches,
  parseKey,
  parseTime,
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
import type { Cache, Change } from "@patchbay/core/interfaces";
import {
  planPodClaims,
  SELECTED_NODE_ANNOTATION,
  type ClaimLookup,
  type StorageCaches,
} from "../claims/index.ts";
import { prepareDeviceClaims } from "./device-claims.ts";
import { findVolumeProblem, placePod, trimNamespace, trimNode, trimPod } from "./placement.ts";
import { runEvictor } from "./evictor.ts";
import type { PlacedPod } from "./affinity.ts";

export interface BinderDeps {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  /** Name of the node on whose disk volumes are provisioned. */
  readonly nodeName: string;
  readonly storage: StorageCaches;
  readonly watch?: LoopWatch;
}

interface BinderState {
  readonly pods: Cache<Pod>;
  readonly nodes: Cache<KubeNode>;
  readonly namespaces: Cache<KubeObject>;
  /** Resource claims that waiting pods need. The users are NAMESPACE/NAME of pods. */
  readonly deviceClaims: ObjectWatches<ResourceClaim>;
  readonly claimTemplates: ObjectWatches<ResourceClaimTemplate>;
  /** Nodes of bound pods whose binding the watch has not reported yet, by pod uid. */
  readonly nodeNameByUid: Map<string, string>;
  readonly rateLimiter: RateLimiter;
}

const NODE_INDEX = "node";
/** Pods of one namespace that are bound. Each start takes a large part of a second of a core. */
const BIND_RATE: Rate = { burst: 12, perSecond: 0.5 };
/** Bindings that the end of a tenant's short-lived pod counts for. A loop of such pods occupies the node, but no quota. */
const [SHORT_LIFE_MS, SHORT_LIFE_COST] = [60_000, 4];
const REPORTED_WAIT_MS = 5000;
const WAIT_MESSAGE = "the pod waits, because pods of its namespace ended soon after their start";

function rateKeyOf({ metadata }: Pod): string {
  return SHARE_KEYS.namespace(metadata.namespace ?? "");
}

function isTenant({ namespaces }: BinderState, name = ""): boolean {
  return namespaces.find({ name })?.metadata.labels?.[names.TENANT_LABEL] !== undefined;
}

function countShortLife({ clock }: BinderDeps, state: BinderState, pod: Pod): void {
  if (!isTenant(state, pod.metadata.namespace)) return;
  const scheduled = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  const boundAt = scheduled?.lastTransitionTime;
  const livedMs = boundAt === undefined ? 0 : clock.now() - parseTime(boundAt);
  if (livedMs < SHORT_LIFE_MS) state.rateLimiter.spend(rateKeyOf(pod), SHORT_LIFE_COST);
}

async function bind(
  deps: BinderDeps,
  { nodeNameByUid }: BinderState,
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
  nodeNameByUid.set(uid, nodeName);
  try {
    await deps.client.requestRaw({ method: "POST", path: `/api/v1/${path}`, body });
    deps.log.info("pod bound", { pod: `${namespace}/${name}`, node: nodeName });
  } catch (error) {
    nodeNameByUid.delete(uid);
    // These errors mean that another client deleted or bound the pod. The watch will report this change.
    if (!isAppError(error, "KUBE_CONFLICT") && !isAppError(error, "KUBE_NOT_FOUND")) throw error;
  }
}

async function reportUnschedulable(deps: BinderDeps, pod: Pod, message: string): Promise<void> {
  const previous = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (previous?.message === message) return;
  deps.recorder.record(pod, { type: "Warning", reason: "FailedScheduling", message });
  const isUnchanged = previous?.status === "False";
  const previousTransitionTime = isUnchanged ? previous.lastTransitionTime : undefined;
  const condition = {
    type: "PodScheduled",
    status: "False",
    reason: "Unschedulable",
    message,
    lastTransitionTime: previousTransitionTime ?? printTime(deps.clock.now()),
  };
  // A merge patch replaces all conditions. The resourceVersion prevents the loss of other writers' conditions.
  const otherConditions = (pod.status?.conditions ?? []).filter(
    ({ type }) => type !== condition.type,
  );
  const { resourceVersion } = pod.metadata;
  const fields = {
    metadata: { resourceVersion },
    status: { conditions: [...otherConditions, condition] },
  };
  const patch = { type: "merge", fields } as const;
  await deps.client.store.patch(PODS, keyOf(pod), patch, { subresource: "status" });
}

async function selectNode({ client, nodeName }: BinderDeps, claim: PersistentVolumeClaim) {
  const { resourceVersion } = claim.metadata;
  const annotations = { [SELECTED_NODE_ANNOTATION]: nodeName };
  const patch = { type: "merge", fields: { metadata: { resourceVersion, annotations } } } as const;
  await client.store.patch(PERSISTENT_VOLUME_CLAIMS, keyOf(claim), patch);
}

function createLookup({ claims, classes, volumes }: StorageCaches, pod: Pod): ClaimLookup {
  const { namespace = "" } = pod.metadata;
  return {
    findClaim: (name) => claims.find({ namespace, name }),
    findClass: (name) => classes.find({ name }),
    findVolume: (name) => volumes.find({ name }),
  };
}

async function bindWithClaims(
  deps: BinderDeps,
  state: BinderState,
  placement: { readonly pod: Pod; readonly nodeName: string },
): Promise<Next> {
  const { pod } = placement;
  const plan = planPodClaims(pod, createLookup(deps.storage, pod), deps.clock.now());
  if (plan.problems.length > 0) await reportUnschedulable(deps, pod, plan.problems.join("; "));
  for (const claim of plan.claimsToSelect) await selectNode(deps, claim);
  if (plan.areBound) {
    const waitMs = state.rateLimiter.tryProceed(rateKeyOf(pod));
    if (waitMs > 0) return after(waitMs);
    await bind(deps, state, placement);
  }
  return plan.requeueAfterMs === undefined ? done() : after(plan.requeueAfterMs);
}

/** Prepares the pod's resource claims, and reports why they are not ready. Returns whether the pod may be bound. */
async function prepareDevices(
  deps: BinderDeps,
  { pods, deviceClaims, claimTemplates }: BinderState,
  pod: Pod,
): Promise<boolean> {
  const uids = new Set(pods.list().map(({ metadata }) => metadata.uid));
  const { store } = deps.client;
  const hasPod = (uid: string): boolean => uids.has(uid);
  const claimDeps = { store, claims: deviceClaims, templates: claimTemplates, hasPod };
  const state = await prepareDeviceClaims(claimDeps, pod);
  if (state.kind === "ready") return true;
  if (state.problem !== undefined) await reportUnschedulable(deps, pod, state.problem);
  return false;
}

function nodeNameOf({ metadata, spec }: Pod, { nodeNameByUid }: BinderState): string {
  return spec.nodeName === undefined || spec.nodeName === ""
    ? (nodeNameByUid.get(metadata.uid ?? "") ?? "")
    : spec.nodeName;
}

function isWaiting(pod: Pod, state: BinderState): boolean {
  return nodeNameOf(pod, state) === "" && pod.metadata.deletionTimestamp === undefined;
}

/** Lists unfinished pods with their nodes, including pods whose binding the watch has not reported yet. */
function listPlacedPods(state: BinderState): readonly PlacedPod[] {
  const unfinished = state.pods.list().filter((pod) => !isPodFinished(pod));
  return unfinished.flatMap((pod) => {
    const node = state.nodes.find({ name: nodeNameOf(pod, state) });
    return node === undefined ? [] : [{ pod, node }];
  });
}

async function schedulePod(deps: BinderDeps, state: BinderState, key: string): Promise<Next> {
  const pod = state.pods.find(parseKey(key));
  const nodes = state.nodes.list();
  // Without nodes, the pod waits until the creation of a node enqueues it.
  if (pod === undefined || !isWaiting(pod, state) || nodes.length === 0) return done();
  const waitMs = state.rateLimiter.findWait(rateKeyOf(pod));
  if (waitMs >= REPORTED_WAIT_MS) await reportUnschedulable(deps, pod, WAIT_MESSAGE);
  if (waitMs > 0) return after(waitMs);
  const claimContext = { claimNode: deps.nodeName, lookup: createLookup(deps.storage, pod) };
  const placement = placePod(pod, {
    nodes,
    placedPods: listPlacedPods(state),
    findNamespaceLabels: (name) => state.namespaces.find({ name })?.metadata.labels ?? {},
    findVolumeProblem: (node) => findVolumeProblem(pod, node, claimContext),
  });
  if ("nodeName" in placement) {
    const isReady = await prepareDevices(deps, state, pod);
    return isReady ? bindWithClaims(deps, state, { pod, ...placement }) : done();
  }
  await reportUnschedulable(deps, pod, placement.problem);
  return done();
}

function releasesResources(
  change: Change<Pod>,
): change is Exclude<Change<Pod>, { readonly kind: "added" }> {
  const previous = change.kind === "added" ? undefined : change.previous;
  if (previous === undefined || isPodFinished(previous)) return false;
  const wasBound = (previous.spec.nodeName ?? "") !== "";
  return wasBound && (change.kind === "deleted" || isPodFinished(change.current));
}

function compareOldestFirst({ metadata: one }: Pod, { metadata: other }: Pod): number {
  const [firstTime = "", secondTime = ""] = [one.creationTimestamp, other.creationTimestamp];
  return firstTime === secondTime ? 0 : firstTime < secondTime ? -1 : 1;
}

function enqueueOnChange(deps: BinderDeps, state: BinderState, queue: Queue): void {
  const { pods, nodes, namespaces, nodeNameByUid, deviceClaims, claimTemplates } = state;
  const wake = (key: string): void => {
    queue.add(key);
  };
  for (const watches of [deviceClaims, claimTemplates]) {
    watches.onSynced(wake);
    watches.onChange(wake);
  }
  const wakeAll = (): void => {
    const waitingPods = [...pods.listBy(NODE_INDEX, "")].sort(compareOldestFirst);
    for (const pod of waitingPods) queue.add(printKey(keyOf(pod)));
  };
  pods.onChange((change) => {
    const pod = change.kind === "deleted" ? change.previous : change.current;
    const isBound = change.kind === "deleted" || (pod.spec.nodeName ?? "") !== "";
    const key = printKey(keyOf(pod));
    if (isBound) {
      nodeNameByUid.delete(pod.metadata.uid ?? "");
      for (const watches of [deviceClaims, claimTemplates]) watches.setUsed(key, []);
    } else queue.add(key);
    if (releasesResources(change)) {
      countShortLife(deps, state, change.previous);
      wakeAll();
    }
  });
  for (const cache of [nodes, namespaces, deps.storage.claims, deps.storage.classes])
    cache.onChange(wakeAll);
}

export async function runBinder(deps: BinderDeps, signal: AbortSignal): Promise<void> {
  const { client, clock, log: logger } = deps;
  const queue = createQueue({ clock });
  const indexes = { [NODE_INDEX]: ({ spec }: Pod) => [spec.nodeName ?? ""] };
  const pods = createCache(client.reflect(PODS, { trim: trimPod }), { logger, indexes });
  const nodes = createCache(client.reflect(NODES, { trim: trimNode }), { logger });
  const namespaces = createCache(client.reflect(NAMESPACES, { trim: trimNamespace }), { logger });
  const caches = [pods, nodes, namespaces];
  const watch = <T extends KubeObject>(type: ResourceType<T>): ObjectWatches<T> =>
    new ObjectWatches(
      {
        openCache: (namespace) =>
          createCache(client.reflect(type, { namespace, isIdentityOnly: true }), { logger }),
        readObject: (key) => client.store.find(type, key),
        clock,
        logger,
      },
      signal,
    );
  const state: BinderState = {
    pods,
    nodes,
    namespaces,
    nodeNameByUid: new Map(),
    deviceClaims: watch(RESOURCE_CLAIMS),
    claimTemplates: watch(RESOURCE_CLAIM_TEMPLATES),
    rateLimiter: new RateLimiter(BIND_RATE, { clock, stop: signal }),
  };
  enqueueOnChange(deps, state, queue);
  for (const cache of caches) cache.start(signal);
  // Binding starts only when the caches are complete, because the resources of pods that are missing in a cache would count as free.
  await waitForCaches(caches, signal);
  const reconcile = (key: string): Promise<Next> => schedulePod(deps, state, key);
  await Promise.all([
    runReconciler({ ...deps, name: "binder", queue, reconcile }, signal),
    runEvictor({ ...deps, pods, nodes }, signal),
  ]);
}
