// SPDX-License-Identifier: Apache-2.0
// May a pod be beside those that are there? Pure. Source: Kubernetes scheduler, InterPodAffinity.
import type { KubeNode, Pod } from "@patchbay/api";
import { affinityOf, type PodTerm } from "./affinity.ts";
import { selectsLabels } from "./selectors.ts";

/** A pod, and the node that it has. */
export interface PlacedPod {
  readonly pod: Pod;
  readonly node: KubeNode;
}

/** A pod of which a term speaks, from the one that says it. */
function means(term: PodTerm, owner: Pod, other: Pod): boolean {
  const { namespaces = [], namespaceSelector, labelSelector } = term;
  const own = owner.metadata.namespace ?? "";
  const isNamed = namespaces.includes(other.metadata.namespace ?? "");
  // Of labels of namespaces nothing is known here: see `unknownWords`. An empty selector means all of them.
  const isInReach =
    namespaceSelector !== undefined ||
    isNamed ||
    (namespaces.length === 0 && other.metadata.namespace === own);
  return isInReach && selectsLabels(labelSelector, other.metadata.labels ?? {});
}

/** Where the node is, in the measure of a term. */
function domainOf({ topologyKey }: PodTerm, { metadata }: KubeNode): string | undefined {
  return topologyKey === undefined ? undefined : metadata.labels?.[topologyKey];
}

function isTogether(term: PodTerm, one: KubeNode, other: KubeNode): boolean {
  const domain = domainOf(term, one);
  return domain !== undefined && domain === domainOf(term, other);
}

/** Whether a pod that the term means is where the node is. */
export function hasNeighbour(
  term: PodTerm,
  pod: Pod,
  at: { readonly node: KubeNode; readonly placed: readonly PlacedPod[] },
): boolean {
  return at.placed.some(
    (other) => means(term, pod, other.pod) && isTogether(term, at.node, other.node),
  );
}

/** The first of pods that want to be together has nobody to be with. */
function isFirstOfItsOwn(terms: readonly PodTerm[], pod: Pod, placed: readonly PlacedPod[]) {
  const isOwn = terms.every((term) => means(term, pod, pod));
  return isOwn && !placed.some((other) => terms.every((term) => means(term, pod, other.pod)));
}

function affinityProblem(pod: Pod, node: KubeNode, placed: readonly PlacedPod[]) {
  const terms = affinityOf(pod).together;
  const isInDomains = terms.every((term) => domainOf(term, node) !== undefined);
  const isMet = terms.every((term) => hasNeighbour(term, pod, { node, placed }));
  const isRight = isMet || (isInDomains && isFirstOfItsOwn(terms, pod, placed));
  return isRight ? undefined : "node(s) didn't match pod affinity rules";
}

/** Whom those that are there do not want beside them. */
function isUnwanted(pod: Pod, node: KubeNode, placed: readonly PlacedPod[]): boolean {
  return placed.some((other) =>
    affinityOf(other.pod).apart.some(
      (term) => means(term, other.pod, pod) && isTogether(term, node, other.node),
    ),
  );
}

/** Why the pod may not be there; undefined: it may. `placed` are the pods of all nodes, without those that are over. */
export function neighbourProblem(
  pod: Pod,
  node: KubeNode,
  placed: readonly PlacedPod[],
): string | undefined {
  if (isUnwanted(pod, node, placed)) {
    return "node(s) didn't satisfy existing pods anti-affinity rules";
  }
  const { apart } = affinityOf(pod);
  if (apart.some((term) => hasNeighbour(term, pod, { node, placed }))) {
    return "node(s) didn't match pod anti-affinity rules";
  }
  return affinityProblem(pod, node, placed);
}
