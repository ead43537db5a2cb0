// SPDX-License-Identifier: Apache-2.0
// Selects a node for a pod. Explains rejected nodes in the words of Kubernetes' scheduler, because users search for these messages.
import type {
  Container,
  KubeNode,
  KubeObject,
  PersistentVolume,
  Pod,
} from "@patchbay/api/kubernetes";
import { omitUndefined } from "@patchbay/base";
import { listClaimNames, type ClaimLookup } from "../claims/index.ts";
import {
  selectsNode,
  type NodeTerm,
  parseAffinity,
  type Weighted,
  hasMatchingPod,
  findAffinityConflict,
  type PodSurroundings,
} from "./affinity.ts";
import { parseAllocatable, describeShortage, findShortages } from "./resources.ts";
import { toleratesCordon, findUntoleratedTaint, listUntoleratedSoftTaints } from "./taints.ts";

interface VolumeAffinity {
  readonly required?: { readonly nodeSelectorTerms?: readonly NodeTerm[] };
}

function isVolumeUsableOn({ spec }: PersistentVolume, node: KubeNode): boolean {
  // The cast is safe, because the API server has validated the types.
  const { required } = (spec.nodeAffinity ?? {}) as VolumeAffinity;
  return required === undefined || selectsNode(required.nodeSelectorTerms ?? [], node);
}

/** Returns why the pod's claims exclude the node. Unbound claims are provisioned only on `claimNode`. */
export function findVolumeProblem(
  pod: Pod,
  node: KubeNode,
  { claimNode, lookup }: { readonly claimNode: string; readonly lookup: ClaimLookup },
): string | undefined {
  const isUsable = (name: string): boolean => {
    const volume = lookup.findVolume(lookup.findClaim(name)?.spec.volumeName ?? "");
    return volume === undefined ? node.metadata.name === claimNode : isVolumeUsableOn(volume, node);
  };
  const conflict = "node(s) had volume node affinity conflict";
  return listClaimNames(pod).every(isUsable) ? undefined : conflict;
}

export interface ClusterState extends PodSurroundings {
  readonly nodes: readonly KubeNode[];
  readonly findVolumeProblem: (node: KubeNode) => string | undefined;
}

type Placement = { readonly nodeName: string } | { readonly problem: string };

/** Source: plugins nodeunschedulable and tainttoleration of Kubernetes. */
function findTaintProblem(pod: Pod, { spec }: KubeNode): string | undefined {
  if (spec?.unschedulable === true && !toleratesCordon(pod)) return "node(s) were unschedulable";
  const taint = findUntoleratedTaint(pod, spec?.taints ?? []);
  return taint && `node(s) had untolerated taint {${taint.key}: ${taint.value ?? ""}}`;
}

const NO_MATCH_MESSAGE = "node(s) didn't match Pod's node affinity/selector";

/** Returns why the node selector or node affinity excludes the node. Source: plugin nodeaffinity of Kubernetes. */
function findSelectorProblem(pod: Pod, node: KubeNode): string | undefined {
  const labels = node.metadata.labels ?? {};
  const missingLabels = Object.entries(pod.spec.nodeSelector ?? {})
    .filter(([label, value]) => labels[label] !== value)
    .map(([label, value]) => `${label}=${value}`)
    .sort();
  if (missingLabels.length > 0) return `${NO_MATCH_MESSAGE} (${missingLabels.join(", ")})`;
  const { nodes } = parseAffinity(pod);
  return nodes === undefined || selectsNode(nodes, node) ? undefined : NO_MATCH_MESSAGE;
}

function listPodsOn({ placedPods }: ClusterState, node: KubeNode): readonly Pod[] {
  const { name } = node.metadata;
  return placedPods
    .filter((placedPod) => placedPod.node.metadata.name === name)
    .map(({ pod }) => pod);
}

/** Lists why the pod cannot run on the node. The list has more than one reason only if several resources are insufficient. */
function listProblems(pod: Pod, node: KubeNode, cluster: ClusterState): readonly string[] {
  const allocatable = parseAllocatable(node);
  if (allocatable === undefined) return ["node(s) have not reported their resources"];
  const firstProblem = findTaintProblem(pod, node) ?? findSelectorProblem(pod, node);
  if (firstProblem !== undefined) return [firstProblem];
  const shortages = findShortages(pod, listPodsOn(cluster, node), allocatable);
  if (shortages.length > 0) return shortages.map(describeShortage);
  return [cluster.findVolumeProblem(node) ?? findAffinityConflict(pod, node, cluster)].flatMap(
    (problem) => problem ?? [],
  );
}

/** Source: FitError in pkg/scheduler/framework of Kubernetes. */
function describeNoNode(nodes: number, reasons: readonly string[]): string {
  const uniqueReasons = [...new Set(reasons)].sort();
  const countedReasons = uniqueReasons.map((uniqueReason) => {
    const count = reasons.filter((reason) => reason === uniqueReason).length;
    return `${String(count)} ${uniqueReason}`;
  });
  return `0/${String(nodes)} nodes are available: ${countedReasons.join(", ")}.`;
}

function sumWeights<T>(preferences: readonly Weighted<T>[], isMet: (term: T) => boolean): number {
  return preferences.reduce((sum, { weight, term }) => sum + (isMet(term) ? weight : 0), 0);
}

/** Returns the node's scores. Higher is better, and earlier scores take precedence. */
function scoreNode(pod: Pod, node: KubeNode, cluster: ClusterState): readonly number[] {
  const { preferred } = parseAffinity(pod);
  const target = { node, ...cluster };
  const weightSum =
    sumWeights(preferred.nodes, (term) => selectsNode([term], node)) +
    sumWeights(preferred.podAffinityTerms, (term) => hasMatchingPod(term, pod, target)) -
    sumWeights(preferred.antiAffinityTerms, (term) => hasMatchingPod(term, pod, target));
  const softTaints = listUntoleratedSoftTaints(pod, node.spec?.taints ?? []);
  return [-softTaints.length, weightSum, -listPodsOn(cluster, node).length];
}

function compareCandidates(
  [one, scores]: readonly [KubeNode, readonly number[]],
  [other, otherScores]: readonly [KubeNode, readonly number[]],
): number {
  const index = scores.findIndex((score, position) => score !== otherScores[position]);
  if (index >= 0) return (otherScores[index] ?? 0) - (scores[index] ?? 0);
  return one.metadata.name < other.metadata.name ? -1 : 1;
}

export function placePod(pod: Pod, cluster: ClusterState): Placement {
  const candidates = cluster.nodes.map((node) => ({
    node,
    problems: listProblems(pod, node, cluster),
  }));
  const [best] = candidates
    .filter(({ problems }) => problems.length === 0)
    .map(({ node }) => [node, scoreNode(pod, node, cluster)] as const)
    .toSorted(compareCandidates);
  if (best !== undefined) return { nodeName: best[0].metadata.name };
  const reasons = candidates.flatMap(({ problems }) => problems);
  return { problem: describeNoNode(cluster.nodes.length, reasons) };
}

function trimContainer({ name, resources }: Container): Container {
  return { name, image: "", ...(resources && { resources }) };
}

function trimMetadata(metadata: KubeObject["metadata"]): KubeObject["metadata"] {
  const { name, namespace, uid, resourceVersion, labels } = metadata;
  const { creationTimestamp, deletionTimestamp } = metadata;
  const identity = { name, namespace, uid, resourceVersion };
  return omitUndefined({ ...identity, labels, creationTimestamp, deletionTimestamp });
}

/** Drops the fields that the binder does not read, because tenants can fill them with up to a MiB for each pod. */
export function trimPod({ apiVersion, kind, metadata, spec, status }: Pod): Pod {
  const { nodeName, nodeSelector, affinity, tolerations, resourceClaims } = spec;
  const { containers, initContainers, volumes } = spec;
  const { phase, conditions, resourceClaimStatuses } = status ?? {};
  return {
    apiVersion,
    kind,
    metadata: trimMetadata(metadata),
    spec: {
      ...omitUndefined({ nodeName, nodeSelector, affinity, tolerations, resourceClaims }),
      containers: containers.map(trimContainer),
      ...(initContainers && { initContainers: initContainers.map(trimContainer) }),
      ...(volumes && {
        volumes: volumes.flatMap(({ name, persistentVolumeClaim }) =>
          persistentVolumeClaim === undefined ? [] : [{ name, persistentVolumeClaim }],
        ),
      }),
    },
    ...(status && { status: omitUndefined({ phase, conditions, resourceClaimStatuses }) }),
  };
}

export function trimNode({ apiVersion, kind, metadata, spec, status }: KubeNode): KubeNode {
  const { allocatable } = status ?? {};
  return {
    apiVersion,
    kind,
    metadata: trimMetadata(metadata),
    ...(spec && { spec }),
    ...(allocatable && { status: { allocatable } }),
  };
}

export function trimNamespace({ apiVersion, kind, metadata }: KubeObject): KubeObject {
  return { apiVersion, kind, metadata: trimMetadata(metadata) };
}
