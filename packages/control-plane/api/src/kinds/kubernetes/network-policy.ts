// SPDX-License-Identifier: Apache-2.0
// Source: Kubernetes networking.k8s.io/v1 NetworkPolicy.
import type { KubeObject } from "./meta.ts";

interface LabelRequirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

/** An empty selector selects all objects. */
export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly LabelRequirement[];
}

export interface PolicyPeer {
  readonly podSelector?: LabelSelector;
  /** Selects the namespaces of the pods; unset for the policy's own namespace. */
  readonly namespaceSelector?: LabelSelector;
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
}

export interface PolicyPort {
  /** The default is TCP. */
  readonly protocol?: string;
  /** Number or name of a container port; unset for all ports of the protocol. */
  readonly port?: number | string;
  readonly endPort?: number;
}

export interface NetworkPolicy extends KubeObject {
  readonly spec?: {
    readonly podSelector?: LabelSelector;
    readonly policyTypes?: readonly string[];
    readonly ingress?: readonly {
      readonly from?: readonly PolicyPeer[];
      readonly ports?: readonly PolicyPort[];
    }[];
    readonly egress?: readonly {
      readonly to?: readonly PolicyPeer[];
      readonly ports?: readonly PolicyPort[];
    }[];
  };
}
