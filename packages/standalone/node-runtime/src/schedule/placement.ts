// SPDX-License-Identifier: Apache-2.0
// Selects a node for a pod. Pure. The reasons are the texts of Kubernetes' scheduler, because users search for them.
import type { KubeNode, PersistentVolume, Pod } from "@patchbay/api/kubernetes";
import { listClaimNames, type ClaimLookup } from "../claims/index.ts";
import {
  selectsNode,
  type NodeTerm,
  parseAffinity,
  findUnsupportedAffinity,
  type Weighted,
  hasMatchingPod,
  findAffinityConflict,
  type PlacedPod,
} from "./affinity.ts";
import { parseAllocatable, describeShortage, findShortages } from "./resources.ts";
import { toleratesCordon, findUntolerated, listUntoleratedSoft } from "./taints.ts";

interface VolumeAffinity {
  readonly required?: { readonly nodeSelectorTerms?: readonly NodeTerm[] };
}

function isVolumeUsableOn({ spec }: PersistentVolume, node: KubeNode): boolean {
  // The cast is safe, because the API server has validated the types.
  const { required } = (spec.nodeAffinity ?? {}) as VolumeAffinity;
  return required === undefined || selectsNode(required.nodeSelectorTerms ?? [], node);
}

/** Returns why the pod's claims exclude the node. Claims without a volume get one on the disk of `claimNode`. */
export function volumeProblem(
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

export interface ClusterState {
  readonly nodes: readonly KubeNode[];
  readonly placed: readonly PlacedPod[];
  readonly volumeProblem: (node: KubeNode) => string | undefined;
}

type Placement = { readonly nodeName: string } | { readonly problem: string };

/** Source: plugins nodeunschedulable and tainttoleration of Kubernetes. */
function taintProblem(pod: Pod, { spec }: KubeNode): string | undefined {
  if (spec?.unschedulable === true && !toleratesCordon(pod)) return "node(s) were unschedulable";
  const taint = findUntolerated(pod, spec?.taints ?? []);
  return taint && `node(s) had untolerated taint {${taint.key}: ${taint.value ?? ""}}`;
}

const NO_MATCH = "node(s) didn't match Pod's node affinity/selector";

/** Returns the scheduler's text, with the missing labels if any. Source: plugin nodeaffinity of Kubernetes. */
function selectorProblem(pod: Pod, node: KubeNode): string | undefined {
  const labels = node.metadata.labels ?? {};
  const missing = Object.entries(pod.spec.nodeSelector ?? {})
    .filter(([label, value]) => labels[label] !== value)
    .map(([label, value]) => `${label}=${value}`)
    .sort();
  if (missing.length > 0) return `${NO_MATCH} (${missing.join(", ")})`;
  const { nodes } = parseAffinity(pod);
  return nodes === undefined || selectsNode(nodes, node) ? undefined : NO_MATCH;
}

function listPodsOn({ placed }: ClusterState, node: KubeNode): readonly Pod[] {
  const { name } = node.metadata;
  return placed.filter((one) => one.node.metadata.name === name).map(({ pod }) => pod);
}

/** Lists why the pod cannot run on the node: all resource shortages, or the first other reason. */
function listProblems(pod: Pod, node: KubeNode, cluster: ClusterState): readonly string[] {
  const allocatable = parseAllocatable(node);
  if (allocatable === undefined) return ["node(s) have not reported their resources"];
  const first = taintProblem(pod, node) ?? selectorProblem(pod, node);
  if (first !== undefined) return [first];
  const shortages = findShortages(pod, listPodsOn(cluster, node), allocatable);
  if (shortages.length > 0) return shortages.map(describeShortage);
  return [cluster.volumeProblem(node) ?? findAffinityConflict(pod, node, cluster.placed)].flatMap(
    (problem) => problem ?? [],
  );
}

/** Source: FitError in pkg/scheduler/framework of Kubernetes. */
function describeNoNode(nodes: number, reasons: readonly string[]): string {
  const kinds = [...new Set(reasons)].sort();
  const counted = kinds.map((kind) => {
    const count = reasons.filter((reason) => reason === kind).length;
    return `${String(count)} ${kind}`;
  });
  return `0/${String(nodes)} nodes are available: ${counted.join(", ")}.`;
}

function sumWeights<T>(preferred: readonly Weighted<T>[], isMet: (term: T) => boolean): number {
  return preferred.reduce((sum, { weight, term }) => sum + (isMet(term) ? weight : 0), 0);
}

/** Returns the node's scores. Higher is better, and earlier scores take precedence. */
function scoreNode(pod: Pod, node: KubeNode, cluster: ClusterState): readonly number[] {
  const { preferred } = parseAffinity(pod);
  const at = { node, placed: cluster.placed };
  const met =
    sumWeights(preferred.nodes, (term) => selectsNode([term], node)) +
    sumWeights(preferred.podAffinityTerms, (term) => hasMatchingPod(term, pod, at)) -
    sumWeights(preferred.antiAffinityTerms, (term) => hasMatchingPod(term, pod, at));
  const taints = listUntoleratedSoft(pod, node.spec?.taints ?? []);
  return [-taints.length, met, -listPodsOn(cluster, node).length];
}

function compareCandidates(
  [one, first]: readonly [KubeNode, readonly number[]],
  [other, second]: readonly [KubeNode, readonly number[]],
): number {
  const index = first.findIndex((score, at) => score !== second[at]);
  if (index >= 0) return (second[index] ?? 0) - (first[index] ?? 0);
  return one.metadata.name < other.metadata.name ? -1 : 1;
}

export function placePod(pod: Pod, cluster: ClusterState): Placement {
  const unsupported = findUnsupportedAffinity(pod);
  if (unsupported !== undefined) return { problem: unsupported };
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
