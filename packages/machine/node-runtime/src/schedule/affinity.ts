// SPDX-License-Identifier: Apache-2.0
// What does a pod say of the nodes and the neighbours that it wants? Pure. Source: Kubernetes core/v1 Affinity.
import type { Pod } from "@patchbay/api";
import type { LabelSelector, NodeTerm } from "./selectors.ts";

/** Pods that are meant, and how near is together. */
export interface PodTerm {
  readonly labelSelector?: LabelSelector;
  /** Whose pods; none, and no selector: those of the pod's own namespace. */
  readonly namespaces?: readonly string[];
  readonly namespaceSelector?: LabelSelector;
  /** The label of nodes that are one place when they have the same value. */
  readonly topologyKey?: string;
}

/** What is preferred, worth 1 to 100. */
export interface Weighted<T> {
  readonly weight: number;
  readonly term: T;
}

/** What must be, and what is preferred. */
export interface Affinity {
  /** Ways in which a node fits; absent: every node does. */
  readonly nodes: readonly NodeTerm[] | undefined;
  readonly together: readonly PodTerm[];
  readonly apart: readonly PodTerm[];
  readonly preferred: {
    readonly nodes: readonly Weighted<NodeTerm>[];
    readonly together: readonly Weighted<PodTerm>[];
    readonly apart: readonly Weighted<PodTerm>[];
  };
}

interface PodRules {
  readonly requiredDuringSchedulingIgnoredDuringExecution?: readonly PodTerm[];
  readonly preferredDuringSchedulingIgnoredDuringExecution?: readonly {
    readonly weight?: number;
    readonly podAffinityTerm?: PodTerm;
  }[];
}

/** As it is on the wire; of the right types, but any of it may be missing. */
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

function requiredOf(rules: PodRules | undefined): readonly PodTerm[] {
  return rules?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
}

function preferredOf(rules: PodRules | undefined): readonly Weighted<PodTerm>[] {
  const preferred = rules?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  return preferred.map(({ weight = 0, podAffinityTerm: term = {} }) => ({ weight, term }));
}

/** What the pod says. */
export function affinityOf({ spec }: Pod): Affinity {
  // The API server has seen to its form.
  const { nodeAffinity, podAffinity, podAntiAffinity } = (spec.affinity ?? {}) as AffinityFields;
  const preferred = nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  const required = nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return {
    nodes: required && (required.nodeSelectorTerms ?? []),
    together: requiredOf(podAffinity),
    apart: requiredOf(podAntiAffinity),
    preferred: {
      nodes: preferred.map(({ weight = 0, preference: term = {} }) => ({ weight, term })),
      together: preferredOf(podAffinity),
      apart: preferredOf(podAntiAffinity),
    },
  };
}

function isBeyondUs({ namespaceSelector }: PodTerm): boolean {
  return namespaceSelector !== undefined && Object.values(namespaceSelector).flat().length > 0;
}

/** Words that are not understood here, for people; undefined: all are. Such a pod gets no node rather than a wrong one. */
export function unknownWords(pod: Pod): string | undefined {
  const { together, apart } = affinityOf(pod);
  if (![...together, ...apart].some(isBeyondUs)) return undefined;
  return "affinity to pods of namespaces that labels select (namespaceSelector) is not supported here";
}
