// SPDX-License-Identifier: Apache-2.0
// Sets the conditions of nodes without heartbeats to Unknown. Source: Kubernetes node-lifecycle-controller, without eviction of pods.
import { LEASE, NODE } from "../kinds/cluster/node.ts";
import { bucketOf } from "../kinds/kind.ts";
import { type Fields, asFields, asList, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Change } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { changeInternally } from "./internal-writes.ts";
import { WorkQueue } from "./work-queue.ts";

/** Types of the kubelet's conditions. Source: node-lifecycle-controller, nodeConditionTypeToTaintKeyStatusMap. */
const KUBELET_CONDITIONS = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

const STOPPED_REPORTING = {
  status: "Unknown",
  reason: "NodeStatusUnknown",
  message: "Kubelet stopped posting node status.",
};
const NEVER_REPORTED = {
  status: "Unknown",
  reason: "NodeStatusNeverUpdated",
  message: "Kubelet never posted node status.",
};

export function withUnknownConditions(node: KubeObject, now: string): KubeObject {
  const status = asFields(node["status"]);
  const existingConditions = asList(status["conditions"]).map(asFields);
  const toUnknown = (condition: Fields): Fields =>
    KUBELET_CONDITIONS.includes(textAt(condition, "type")) &&
    textAt(condition, "status") !== "Unknown"
      ? { ...condition, ...STOPPED_REPORTING, lastTransitionTime: now }
      : condition;
  const isMissing = (type: string): boolean =>
    !existingConditions.some((condition) => textAt(condition, "type") === type);
  const lastHeartbeatTime = node.metadata.creationTimestamp;
  const toNeverReported = (type: string): Fields => ({
    type,
    ...NEVER_REPORTED,
    lastHeartbeatTime,
    lastTransitionTime: now,
  });
  const conditions = [
    ...existingConditions.map(toUnknown),
    ...KUBELET_CONDITIONS.filter(isMissing).map(toNeverReported),
  ];
  return { ...node, status: { ...status, conditions } };
}

const NODES = bucketOf(NODE);
const LEASES = bucketOf(LEASE);
/** Namespace of node Leases. Source: Kubernetes core/v1 NamespaceNodeLease. */
const LEASE_NAMESPACE = "kube-node-lease";
/** Time after the last heartbeat until conditions become Unknown. Source: kube-controller-manager, --node-monitor-grace-period. */
const GRACE_PERIOD_MS = 40_000;

function heartbeatTime({ address }: Change["current"], object: KubeObject | undefined): string {
  if (address.bucket === LEASES) return textAt(object, "spec", "renewTime");
  const conditions = asList(valueAt(object, "status", "conditions"));
  const readyCondition = conditions.find((condition) => textAt(condition, "type") === "Ready");
  return textAt(readyCondition, "lastHeartbeatTime");
}

function isNodeOrLease({ bucket, namespace }: Change["current"]["address"]): boolean {
  return bucket === NODES || (bucket === LEASES && namespace === LEASE_NAMESPACE);
}

function isHeartbeat({ current, previous, type }: Change): boolean {
  if (!isNodeOrLease(current.address) || type === "DELETED") return false;
  if (previous === undefined) return true;
  return heartbeatTime(current, current.view()) !== heartbeatTime(current, previous.view());
}

/** Starts the controller. Measures grace periods with this machine's clock, because kubelet clocks may differ. */
export function startNodeLifecycle(deps: VerbDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const graceTimers = new Map<string, AbortController>();
  const work = (name: string): Promise<void> => {
    const address = { bucket: NODES, namespace: "", name };
    return changeInternally(deps, { kind: NODE, address, subresource: "status" }, (node) =>
      graceTimers.has(name) ? node : withUnknownConditions(node, rfc3339(clock.now())),
    );
  };
  const queue = new WorkQueue({ name: "node-lifecycle", clock, logger, stop, work });
  const stopGracePeriod = (name: string): void => {
    graceTimers.get(name)?.abort();
    graceTimers.delete(name);
  };
  const restartGracePeriod = (name: string): void => {
    stopGracePeriod(name);
    const timer = new AbortController();
    graceTimers.set(name, timer);
    clock.sleep(GRACE_PERIOD_MS, timer.signal).then(
      () => {
        graceTimers.delete(name);
        queue.add(name);
      },
      () => undefined, // A heartbeat or the node's deletion has canceled the timer.
    );
  };
  const unsubscribe = store.subscribe((changes) => {
    for (const change of changes) {
      const { bucket, name } = change.current.address;
      if (isHeartbeat(change)) restartGracePeriod(name);
      else if (bucket === NODES && change.type === "DELETED") stopGracePeriod(name);
    }
  });
  stop.addEventListener("abort", () => {
    unsubscribe();
    [...graceTimers.keys()].forEach(stopGracePeriod);
  });
  for (const { address } of store.list({ bucket: NODES })) restartGracePeriod(address.name);
}
