// SPDX-License-Identifier: Apache-2.0
// Does a node answer still? Where it does not, nobody knows what its guests do: they may well run. Source: Kubernetes
// node-lifecycle-controller, which says so 40 s after a node's last word.
import type { KubeNode } from "@patchbay/api";
import { isExtendedResource } from "./definitions.ts";

/** Set while a node's Ready is Unknown. Source: Kubernetes well-known taints. */
const UNREACHABLE = "node.kubernetes.io/unreachable";
const READY = "Ready";

/** Why what is on a node cannot be known. */
export interface NodeLoss {
  /** KubeVirt's word. Source: KubeVirt pkg/virt-controller/watch, NodeUnresponsiveReason. */
  readonly reason: "NodeUnresponsive";
  readonly message: string;
}

function seenMetadata(metadata: KubeNode["metadata"]): KubeNode["metadata"] {
  const { name, uid, resourceVersion, labels } = metadata;
  return {
    name,
    ...(uid !== undefined && { uid }),
    ...(resourceVersion !== undefined && { resourceVersion }),
    ...(labels !== undefined && { labels }),
  };
}

function seenStatus(status: KubeNode["status"]): NonNullable<KubeNode["status"]> {
  const conditions = (status?.conditions ?? []).filter(({ type }) => type === READY);
  const extended = Object.entries(status?.capacity ?? {}).filter(([resource]) =>
    isExtendedResource(resource),
  );
  return {
    conditions: conditions.map(({ type, status: is }) => ({ type, status: is })),
    ...(extended.length > 0 && { capacity: Object.fromEntries(extended) }),
  };
}

/** What of a node is looked at, also of one that a guest might go to: the rest changes with each of its heartbeats. */
export function seenNode({ apiVersion, kind, metadata, spec, status }: KubeNode): KubeNode {
  const taints = (spec?.taints ?? []).filter(({ key }) => key === UNREACHABLE);
  return {
    apiVersion,
    kind,
    metadata: seenMetadata(metadata),
    spec: { taints, ...(spec?.unschedulable === true && { unschedulable: true }) },
    status: seenStatus(status),
  };
}

/**
 * The extended resources that any node has. A kubelet lists the resource of a device plugin with the amount 0 while the plugin
 * is away, so the name counts, whatever its amount.
 */
export function offeredResources(nodes: readonly KubeNode[]): ReadonlySet<string> {
  const all = nodes.flatMap(({ status }) => Object.keys(status?.capacity ?? {}));
  return new Set(all.filter(isExtendedResource));
}

/** Whether nothing is heard of the node. One that says itself that it is not ready is heard of. */
export function isNodeLost(node: KubeNode | undefined): boolean {
  const ready = node?.status?.conditions?.find(({ type }) => type === READY);
  const isTainted = node?.spec?.taints?.some(({ key }) => key === UNREACHABLE) === true;
  return ready?.status === "Unknown" || isTainted;
}

/** Whether the node exists and accepts new pods. */
export function isSchedulable(node: KubeNode | undefined): boolean {
  return node !== undefined && node.spec?.unschedulable !== true;
}

/** What is told of what is on the node; undefined: it answers, or there is no such node, whose pods go by themselves. */
export function nodeLossOf(node: KubeNode | undefined): NodeLoss | undefined {
  if (node === undefined || !isNodeLost(node)) return undefined;
  const { name } = node.metadata;
  const message = `node ${name} does not answer: whether the guest runs is not known, and nothing of it can be changed until the node is back; when it will not come back, delete node ${name}, and the VM starts on another one as its run strategy says`;
  return { reason: "NodeUnresponsive", message };
}
