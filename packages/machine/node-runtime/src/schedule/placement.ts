// SPDX-License-Identifier: Apache-2.0
// Which node does a pod get that has none? Pure; in a scheduler's words, since people search for them.
import type { KubeNode, Pod } from "@patchbay/api";
import { affinityOf, unknownWords, type Weighted } from "./affinity.ts";
import { allocatableOf } from "./amounts.ts";
import { hasNeighbour, neighbourProblem, type PlacedPod } from "./neighbours.ts";
import { selectsNode } from "./selectors.ts";
import { sayShortage, shortagesOf } from "./shortage.ts";
import { toleratesCordon, untolerated, unwelcome } from "./taints.ts";

/** The nodes, and what is on them. */
export interface Board {
  readonly nodes: readonly KubeNode[];
  /** Pods that are not over, of nodes that are known. */
  readonly placed: readonly PlacedPod[];
  /** Why the pod's volumes cannot be used on the node; undefined: they can. */
  readonly volumeProblem: (node: KubeNode) => string | undefined;
}

/** Where a pod goes, or why it goes nowhere. */
export type Placement = { readonly nodeName: string } | { readonly problem: string };

/** Source: Kubernetes nodeunschedulable, tainttoleration. */
function taintProblem(pod: Pod, { spec }: KubeNode): string | undefined {
  if (spec?.unschedulable === true && !toleratesCordon(pod)) return "node(s) were unschedulable";
  const taint = untolerated(pod, spec?.taints ?? []);
  return taint && `node(s) had untolerated taint {${taint.key}: ${taint.value ?? ""}}`;
}

const NO_MATCH = "node(s) didn't match Pod's node affinity/selector";

/** Source: Kubernetes nodeaffinity; the labels are named beside its words. */
function selectorProblem(pod: Pod, node: KubeNode): string | undefined {
  const labels = node.metadata.labels ?? {};
  const missing = Object.entries(pod.spec.nodeSelector ?? {})
    .filter(([label, value]) => labels[label] !== value)
    .map(([label, value]) => `${label}=${value}`)
    .sort();
  if (missing.length > 0) return `${NO_MATCH} (${missing.join(", ")})`;
  const { nodes } = affinityOf(pod);
  return nodes === undefined || selectsNode(nodes, node) ? undefined : NO_MATCH;
}

function podsOn({ placed }: Board, node: KubeNode): readonly Pod[] {
  const { name } = node.metadata;
  return placed.filter((one) => one.node.metadata.name === name).map(({ pod }) => pod);
}

/** Why not there; none: the node can have it. Only resources are told of together. */
function problemsOf(pod: Pod, node: KubeNode, board: Board): readonly string[] {
  const allocatable = allocatableOf(node);
  if (allocatable === undefined) return ["node(s) have not reported their resources"];
  const first = taintProblem(pod, node) ?? selectorProblem(pod, node);
  if (first !== undefined) return [first];
  const shortages = shortagesOf(pod, podsOn(board, node), allocatable);
  if (shortages.length > 0) return shortages.map(sayShortage);
  return (
    [board.volumeProblem(node) ?? neighbourProblem(pod, node, board.placed)]
      // One or none.
      .flatMap((problem) => problem ?? [])
  );
}

/** Source: Kubernetes pkg/scheduler/framework, FitError. */
function sayNone(nodes: number, reasons: readonly string[]): string {
  const kinds = [...new Set(reasons)].sort();
  const counted = kinds.map((kind) => {
    const count = reasons.filter((reason) => reason === kind).length;
    return `${String(count)} ${kind}`;
  });
  return `0/${String(nodes)} nodes are available: ${counted.join(", ")}.`;
}

function worthOf<T>(preferred: readonly Weighted<T>[], isMet: (term: T) => boolean): number {
  return preferred.reduce((sum, { weight, term }) => sum + (isMet(term) ? weight : 0), 0);
}

/** How well the node suits, the first number first; more is better. */
function meritsOf(pod: Pod, node: KubeNode, board: Board): readonly number[] {
  const { preferred } = affinityOf(pod);
  const at = { node, placed: board.placed };
  const met =
    worthOf(preferred.nodes, (term) => selectsNode([term], node)) +
    worthOf(preferred.together, (term) => hasNeighbour(term, pod, at)) -
    worthOf(preferred.apart, (term) => hasNeighbour(term, pod, at));
  const taints = unwelcome(pod, node.spec?.taints ?? []);
  return [-taints.length, met, -podsOn(board, node).length];
}

/** The better one first; the name decides where nothing else does. */
function compare(
  [one, first]: readonly [KubeNode, readonly number[]],
  [other, second]: readonly [KubeNode, readonly number[]],
): number {
  const index = first.findIndex((merit, at) => merit !== second[at]);
  if (index >= 0) return (second[index] ?? 0) - (first[index] ?? 0);
  return one.metadata.name < other.metadata.name ? -1 : 1;
}

/** Where the pod goes: to the node that suits it best of those that can have it. */
export function placePod(pod: Pod, board: Board): Placement {
  const unknown = unknownWords(pod);
  if (unknown !== undefined) return { problem: unknown };
  const judged = board.nodes.map((node) => ({ node, problems: problemsOf(pod, node, board) }));
  const [best] = judged
    .filter(({ problems }) => problems.length === 0)
    .map(({ node }) => [node, meritsOf(pod, node, board)] as const)
    .toSorted(compare);
  if (best !== undefined) return { nodeName: best[0].metadata.name };
  const reasons = judged.flatMap(({ problems }) => problems);
  return { problem: sayNone(board.nodes.length, reasons) };
}
