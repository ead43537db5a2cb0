// SPDX-License-Identifier: Apache-2.0
// Evaluates node selectors, node affinity and pod affinity. Source: type Affinity of Kubernetes' core/v1.
import type { KubeNode, Pod } from "@patchbay/api/kubernetes";

type Labels = Readonly<Record<string, string>>;

interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

/** Label selector. All of its conditions must be met. An empty selector selects everything. */
export interface LabelSelector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly Requirement[];
}

/** Node selector term. All of its conditions must be met. An empty term selects no node. */
export interface NodeTerm {
  readonly matchExpressions?: readonly Requirement[];
  /** Conditions on `metadata.name`, the only supported field. */
  readonly matchFields?: readonly Requirement[];
}

type OperatorTest = (value: string | undefined, values: readonly string[]) => boolean;

const INTEGER = /^[-+]?\d+$/;

function isNumber(value: string | undefined): value is string {
  return value !== undefined && INTEGER.test(value);
}

const isIn: OperatorTest = (value, values) => value !== undefined && values.includes(value);

const OPERATOR_TESTS: Readonly<Record<string, OperatorTest>> = {
  In: isIn,
  NotIn: (value, values) => !isIn(value, values),
  Exists: (value) => value !== undefined,
  DoesNotExist: (value) => value === undefined,
  Gt: (value, [limit]) => isNumber(value) && isNumber(limit) && Number(value) > Number(limit),
  Lt: (value, [limit]) => isNumber(value) && isNumber(limit) && Number(value) < Number(limit),
};

function isRequirementMet({ key, operator, values = [] }: Requirement, labels: Labels): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  return OPERATOR_TESTS[operator]?.(value, values) ?? false;
}

/** Returns whether the selector selects the labels. An undefined selector selects nothing. Source: labels.Requirement of Kubernetes. */
export function selectsLabels(selector: LabelSelector | undefined, labels: Labels): boolean {
  if (selector === undefined) return false;
  const { matchLabels = {}, matchExpressions = [] } = selector;
  const labelRequirements = Object.entries(matchLabels).map(([key, value]) => ({
    key,
    operator: "In",
    values: [value],
  }));
  return [...labelRequirements, ...matchExpressions].every((requirement) =>
    isRequirementMet(requirement, labels),
  );
}

/** Returns whether one of the terms matches. Source: package nodeaffinity of Kubernetes. */
export function selectsNode(terms: readonly NodeTerm[], { metadata }: KubeNode): boolean {
  const fields = { "metadata.name": metadata.name };
  return terms.some(({ matchExpressions = [], matchFields = [] }) => {
    if (matchExpressions.length + matchFields.length === 0) return false;
    const matchesLabels = matchExpressions.every((one) =>
      isRequirementMet(one, metadata.labels ?? {}),
    );
    return matchesLabels && matchFields.every((one) => isRequirementMet(one, fields));
  });
}

interface PodTerm {
  readonly labelSelector?: LabelSelector;
  /** Namespaces of the selected pods. Unless namespaceSelector is set, the default is the namespace of the pod that has this term. */
  readonly namespaces?: readonly string[];
  readonly namespaceSelector?: LabelSelector;
  readonly topologyKey?: string;
}

export interface Weighted<T> {
  readonly weight: number;
  readonly term: T;
}

interface Affinity {
  /** Node selector terms. At least one must match. Undefined if every node matches. */
  readonly nodes: readonly NodeTerm[] | undefined;
  readonly podAffinityTerms: readonly PodTerm[];
  readonly antiAffinityTerms: readonly PodTerm[];
  readonly preferred: {
    readonly nodes: readonly Weighted<NodeTerm>[];
    readonly podAffinityTerms: readonly Weighted<PodTerm>[];
    readonly antiAffinityTerms: readonly Weighted<PodTerm>[];
  };
}

interface PodRules {
  readonly requiredDuringSchedulingIgnoredDuringExecution?: readonly PodTerm[];
  readonly preferredDuringSchedulingIgnoredDuringExecution?: readonly {
    readonly weight?: number;
    readonly podAffinityTerm?: PodTerm;
  }[];
}

interface AffinityFields {
  readonly nodeAffinity?: {
    readonly requiredDuringSchedulingIgnoredDuringExecution?: {
      readonly nodeSelectorTerms?: readonly NodeTerm[];
    };
    readonly preferredDuringSchedulingIgnoredDuringExecution?: readonly {
      readonly weight?: number;
      readonly preference?: NodeTerm;
    }[];
  };
  readonly podAffinity?: PodRules;
  readonly podAntiAffinity?: PodRules;
}

function listRequiredTerms(rules: PodRules | undefined): readonly PodTerm[] {
  return rules?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
}

function listPreferredTerms(rules: PodRules | undefined): readonly Weighted<PodTerm>[] {
  const preferredTerms = rules?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  return preferredTerms.map(({ weight = 0, podAffinityTerm: term = {} }) => ({ weight, term }));
}

export function parseAffinity({ spec }: Pod): Affinity {
  // The cast is safe, because the API server has validated the types.
  const { nodeAffinity, podAffinity, podAntiAffinity } = (spec.affinity ?? {}) as AffinityFields;
  const preferredNodes = nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  const requiredNodes = nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return {
    nodes: requiredNodes && (requiredNodes.nodeSelectorTerms ?? []),
    podAffinityTerms: listRequiredTerms(podAffinity),
    antiAffinityTerms: listRequiredTerms(podAntiAffinity),
    preferred: {
      nodes: preferredNodes.map(({ weight = 0, preference: term = {} }) => ({ weight, term })),
      podAffinityTerms: listPreferredTerms(podAffinity),
      antiAffinityTerms: listPreferredTerms(podAntiAffinity),
    },
  };
}

export interface PlacedPod {
  readonly pod: Pod;
  readonly node: KubeNode;
}

export interface PodSurroundings {
  readonly placedPods: readonly PlacedPod[];
  readonly findNamespaceLabels: (namespace: string) => Labels;
}

type FindNamespaceLabels = PodSurroundings["findNamespaceLabels"];

function selectsNamespace(
  { namespaces = [], namespaceSelector }: PodTerm,
  owner: Pod,
  { namespace, labels }: { readonly namespace: string; readonly labels: Labels },
): boolean {
  if (namespaces.includes(namespace) || selectsLabels(namespaceSelector, labels)) return true;
  const hasOwnScope = namespaces.length === 0 && namespaceSelector === undefined;
  return hasOwnScope && namespace === owner.metadata.namespace;
}

function selectsPod(
  term: PodTerm,
  owner: Pod,
  other: Pod,
  findNamespaceLabels: FindNamespaceLabels,
): boolean {
  const { namespace = "", labels = {} } = other.metadata;
  const scope = { namespace, labels: findNamespaceLabels(namespace) };
  return selectsNamespace(term, owner, scope) && selectsLabels(term.labelSelector, labels);
}

function findDomain({ topologyKey }: PodTerm, { metadata }: KubeNode): string | undefined {
  return topologyKey === undefined ? undefined : metadata.labels?.[topologyKey];
}

function isSameDomain(term: PodTerm, one: KubeNode, other: KubeNode): boolean {
  const domain = findDomain(term, one);
  return domain !== undefined && domain === findDomain(term, other);
}

export function hasMatchingPod(
  term: PodTerm,
  pod: Pod,
  target: PodSurroundings & { readonly node: KubeNode },
): boolean {
  const { node, placedPods, findNamespaceLabels } = target;
  return placedPods.some(
    (other) =>
      selectsPod(term, pod, other.pod, findNamespaceLabels) && isSameDomain(term, node, other.node),
  );
}

/** Returns whether the terms select the pod itself but no placed pod. Affinity then admits the pod as the first of its group. */
function isFirstOfGroup(terms: readonly PodTerm[], pod: Pod, surroundings: PodSurroundings) {
  const { placedPods, findNamespaceLabels } = surroundings;
  const isSelected = (other: Pod): boolean =>
    terms.every((term) => selectsPod(term, pod, other, findNamespaceLabels));
  return isSelected(pod) && !placedPods.some((other) => isSelected(other.pod));
}

function findUnmetAffinity(pod: Pod, node: KubeNode, surroundings: PodSurroundings) {
  const terms = parseAffinity(pod).podAffinityTerms;
  const isInDomains = terms.every((term) => findDomain(term, node) !== undefined);
  const isMet = terms.every((term) => hasMatchingPod(term, pod, { node, ...surroundings }));
  const isSatisfied = isMet || (isInDomains && isFirstOfGroup(terms, pod, surroundings));
  return isSatisfied ? undefined : "node(s) didn't match pod affinity rules";
}

function isExcludedByOthers(pod: Pod, node: KubeNode, surroundings: PodSurroundings): boolean {
  const { placedPods, findNamespaceLabels } = surroundings;
  return placedPods.some((other) =>
    parseAffinity(other.pod).antiAffinityTerms.some(
      (term) =>
        selectsPod(term, other.pod, pod, findNamespaceLabels) &&
        isSameDomain(term, node, other.node),
    ),
  );
}

/** Returns why pod affinity excludes the node. Source: InterPodAffinity. */
export function findAffinityConflict(
  pod: Pod,
  node: KubeNode,
  surroundings: PodSurroundings,
): string | undefined {
  if (isExcludedByOthers(pod, node, surroundings)) {
    return "node(s) didn't satisfy existing pods anti-affinity rules";
  }
  const { antiAffinityTerms } = parseAffinity(pod);
  if (antiAffinityTerms.some((term) => hasMatchingPod(term, pod, { node, ...surroundings }))) {
    return "node(s) didn't match pod anti-affinity rules";
  }
  return findUnmetAffinity(pod, node, surroundings);
}
