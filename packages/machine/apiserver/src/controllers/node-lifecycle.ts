// SPDX-License-Identifier: Apache-2.0
// What does a node say of itself that has gone silent? Nothing that anybody knows. Pure.
import { LEASE } from "../kinds/cluster/lease.ts";
import { NODE } from "../kinds/cluster/node.ts";
import { bucketOf } from "../kinds/kind.ts";
import { type Fields, fieldsOf, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Change } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { changeInternally } from "./internal-writes.ts";
import { WorkQueue } from "./work-queue.ts";

/** What only the node itself can say. Source: Kubernetes node-lifecycle-controller, nodeConditionTypeToTaintKeyStatusMap. */
const OWN_TYPES = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

const STOPPED = {
  status: "Unknown",
  reason: "NodeStatusUnknown",
  message: "Kubelet stopped posting node status.",
};
const NEVER = {
  status: "Unknown",
  reason: "NodeStatusNeverUpdated",
  message: "Kubelet never posted node status.",
};

/** The node with conditions that nobody knows; those that nobody knew already, and those of others, stay. */
export function withUnknownConditions(node: KubeObject, now: string): KubeObject {
  const status = fieldsOf(node["status"]);
  const known = listOf(status["conditions"]).map(fieldsOf);
  const stopped = (condition: Fields): Fields =>
    OWN_TYPES.includes(textAt(condition, "type")) && textAt(condition, "status") !== "Unknown"
      ? { ...condition, ...STOPPED, lastTransitionTime: now }
      : condition;
  const isMissing = (type: string): boolean =>
    !known.some((condition) => textAt(condition, "type") === type);
  const lastHeartbeatTime = node.metadata.creationTimestamp;
  const never = (type: string): Fields => ({
    type,
    ...NEVER,
    lastHeartbeatTime,
    lastTransitionTime: now,
  });
  const conditions = [...known.map(stopped), ...OWN_TYPES.filter(isMissing).map(never)];
  return { ...node, status: { ...status, conditions } };
}

const NODES = bucketOf(NODE);
const LEASES = bucketOf(LEASE);
/** Source: Kubernetes core/v1 NamespaceNodeLease. */
const LEASE_NAMESPACE = "kube-node-lease";
/** How long a node may be silent. Source: kube-controller-manager 1.30, --node-monitor-grace-period. */
const GRACE_MS = 40_000;

/** When a node was last heard of, by its own words; they differ where it was heard of since. */
function signOf({ address }: Change["current"], object: KubeObject | undefined): string {
  if (address.bucket === LEASES) return textAt(object, "spec", "renewTime");
  const conditions = listOf(valueAt(object, "status", "conditions"));
  const ready = conditions.find((condition) => textAt(condition, "type") === "Ready");
  return textAt(ready, "lastHeartbeatTime");
}

function isOfNodes({ bucket, namespace }: Change["current"]["address"]): boolean {
  return bucket === NODES || (bucket === LEASES && namespace === LEASE_NAMESPACE);
}

/** Whether a node, or its lease, tells by this change that it lives. */
function isSign({ current, previous, type }: Change): boolean {
  if (!isOfNodes(current.address) || type === "DELETED") return false;
  if (previous === undefined) return true;
  return signOf(current, current.view()) !== signOf(current, previous.view());
}

/**
 * Starts the controller; it follows the store until `stop` is aborted. What counts is when a sign came, by this machine's
 * clock, not what it says: after a start of the server each node has its grace anew.
 */
export function startNodeLifecycle(deps: VerbDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  /** Of nodes that were heard of within their grace. */
  const waits = new Map<string, AbortController>();
  const work = (name: string): Promise<void> => {
    const address = { bucket: NODES, namespace: "", name };
    return changeInternally(deps, { kind: NODE, address, subresource: "status" }, (node) =>
      waits.has(name) ? node : withUnknownConditions(node, rfc3339(clock.now())),
    );
  };
  const queue = new WorkQueue({ name: "node-lifecycle", clock, logger, stop, work });
  const forget = (name: string): void => {
    waits.get(name)?.abort();
    waits.delete(name);
  };
  const hear = (name: string): void => {
    forget(name);
    const wait = new AbortController();
    waits.set(name, wait);
    clock.sleep(GRACE_MS, wait.signal).then(
      () => {
        waits.delete(name);
        queue.add(name);
      },
      () => undefined, // heard of again, or gone
    );
  };
  const unsubscribe = store.subscribe((changes) => {
    for (const change of changes) {
      const { bucket, name } = change.current.address;
      if (isSign(change)) hear(name);
      else if (bucket === NODES && change.type === "DELETED") forget(name);
    }
  });
  stop.addEventListener("abort", () => {
    unsubscribe();
    [...waits.keys()].forEach(forget);
  });
  for (const { address } of store.list({ bucket: NODES })) hear(address.name);
}
