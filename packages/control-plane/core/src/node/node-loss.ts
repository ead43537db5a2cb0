// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance } from "@patchbay/api";
import type { KubeNode } from "@patchbay/api/kubernetes";
import { isExtendedResource } from "./definitions.ts";

/** Taint of a node whose Ready condition is Unknown. Source: Kubernetes well-known taints. */
const UNREACHABLE_TAINT = "node.kubernetes.io/unreachable";
const READY = "Ready";

export interface NodeLoss {
  /** Source: KubeVirt pkg/virt-controller/watch, NodeUnresponsiveReason. */
  readonly reason: "NodeUnresponsive";
  readonly message: string;
}

function trimMetadata(metadata: KubeNode["metadata"]): KubeNode["metadata"] {
  const { name, uid, resourceVersion, labels } = metadata;
  return {
    name,
    ...(uid !== undefined && { uid }),
    ...(resourceVersion !== undefined && { resourceVersion }),
    ...(labels !== undefined && { labels }),
  };
}

function trimStatus(status: KubeNode["status"]): NonNullable<KubeNode["status"]> {
  const conditions = (status?.conditions ?? []).filter(({ type }) => type === READY);
  const extendedResources = Object.entries(status?.capacity ?? {}).filter(([resource]) =>
    isExtendedResource(resource),
  );
  return {
    conditions: conditions.map(({ type, status: conditionStatus }) => ({
      type,
      status: conditionStatus,
    })),
    ...(extendedResources.length > 0 && { capacity: Object.fromEntries(extendedResources) }),
  };
}

/** Removes all fields of a node that this package does not read, many of which change with each heartbeat. */
export function trimNode({ apiVersion, kind, metadata, spec, status }: KubeNode): KubeNode {
  const taints = (spec?.taints ?? []).filter(({ key }) => key === UNREACHABLE_TAINT);
  return {
    apiVersion,
    kind,
    metadata: trimMetadata(metadata),
    spec: { taints, ...(spec?.unschedulable === true && { unschedulable: true }) },
    status: trimStatus(status),
  };
}

/** Returns the extended resources of all nodes, including resources whose capacity is temporarily 0. */
export function offeredResources(nodes: readonly KubeNode[]): ReadonlySet<string> {
  const resourceNames = nodes.flatMap(({ status }) => Object.keys(status?.capacity ?? {}));
  return new Set(resourceNames.filter(isExtendedResource));
}

/** Checks whether the node has stopped responding. A node that reports itself as not ready still responds. */
export function isNodeUnresponsive(node: KubeNode | undefined): boolean {
  const ready = node?.status?.conditions?.find(({ type }) => type === READY);
  const isTainted = node?.spec?.taints?.some(({ key }) => key === UNREACHABLE_TAINT) === true;
  return ready?.status === "Unknown" || isTainted;
}

export function isSchedulable(node: KubeNode | undefined): boolean {
  return node !== undefined && node.spec?.unschedulable !== true;
}

/** Describes an unresponsive node. Returns undefined if the node responds or was deleted together with its pods. */
export function findNodeLoss(node: KubeNode | undefined): NodeLoss | undefined {
  if (node === undefined || !isNodeUnresponsive(node)) return undefined;
  const { name } = node.metadata;
  const message = `node ${name} does not respond: it is unknown whether the guest runs, and it cannot be changed until the node is back; if the node is lost, delete node ${name}, and the VM starts on another node according to its run strategy`;
  return { reason: "NodeUnresponsive", message };
}

/** Checks whether the guest runs, or ran before its phase became `Unknown`. */
export function hasRun({ status }: VirtualMachineInstance): boolean {
  if (status?.phase !== "Unknown") return status?.phase === "Running";
  return status.phaseTransitionTimestamps?.some(({ phase }) => phase === "Running") === true;
}

export function hasEverRun({ status }: VirtualMachineInstance): boolean {
  const { phase, phaseTransitionTimestamps: transitions = [] } = status ?? {};
  return phase === "Running" || transitions.some((entry) => entry.phase === "Running");
}
