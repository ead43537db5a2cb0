// SPDX-License-Identifier: Apache-2.0
// Kinds of the Network Plumbing Working Group: NetworkAttachmentDefinitions, with a status that Patchbay adds, IPAMClaims and
// MultiNetworkPolicies. Sources: NPWG de-facto standard 1.3 section 3; k8snetworkplumbingwg/ipamclaims, multi-networkpolicy.
import type { Static } from "typebox";
import { Type } from "../fields/schema.ts";
import type { KubeObject } from "./kubernetes/meta.ts";

export const NadSpecSchema = Type.Object({
  config: Type.Optional(Type.String({ description: "CNI configuration as JSON text." })),
});

const NODE_PROBLEM = Type.Object({
  node: Type.String({ description: "Node with the problem; writer: its net-agent." }),
  reason: Type.String({ description: "Reason in CamelCase, equal to that of waiting interfaces." }),
  message: Type.String({ description: "Cause and remedy." }),
  generation: Type.Integer({ description: "Generation of the checked definition." }),
});

export const NadStatusSchema = Type.Object({
  problems: Type.Optional(
    Type.Array(NODE_PROBLEM, {
      description: "Problems by node, of at most ten nodes; absent if none is known.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["node"],
    }),
  ),
});

export type NodeProblem = Static<typeof NODE_PROBLEM>;

export interface NetworkAttachmentDefinition extends KubeObject {
  readonly spec?: { readonly config?: string };
  /** Unset if Multus installed the CRD, because Multus' CRD defines no status. */
  readonly status?: Static<typeof NadStatusSchema>;
}

const CLAIM_ADDRESS = Type.String({ description: "IP address with prefix length." });

export const IpamClaimSpecSchema = Type.Object({
  network: Type.String({ description: "Name of the network in its CNI configuration." }),
  interface: Type.String({ description: "Interface of the pod." }),
  ipRequests: Type.Optional(
    Type.Array(CLAIM_ADDRESS, { description: "Addresses that a user requests.", maxItems: 2 }),
  ),
});

const CLAIM_CONDITION = Type.Object({
  type: Type.String({ description: "Type of the condition." }),
  status: Type.String({ description: "True, False or Unknown." }),
  reason: Type.Optional(Type.String({ description: "Reason in CamelCase." })),
  message: Type.Optional(Type.String({ description: "Cause." })),
  lastTransitionTime: Type.Optional(Type.String({ description: "Time of the last change." })),
  observedGeneration: Type.Optional(
    Type.Integer({ description: "Generation that the condition describes." }),
  ),
});

export const IpamClaimStatusSchema = Type.Object({
  ips: Type.Optional(
    Type.Array(CLAIM_ADDRESS, {
      description: "Addresses of the claim; writer: the network's controller.",
    }),
  ),
  ownerPod: Type.Optional(Type.String({ description: "Pod that has the addresses." })),
  conditions: Type.Optional(Type.Array(CLAIM_CONDITION, { description: "State of the claim." })),
});

/** Claim of addresses on a network. The network's controller assigns and retains the addresses, and writes the status. */
export interface IpamClaim extends KubeObject {
  readonly spec: Static<typeof IpamClaimSpecSchema>;
  readonly status?: Static<typeof IpamClaimStatusSchema>;
}

const SELECTOR = Type.Object({
  matchLabels: Type.Optional(
    Type.Record(Type.String(), Type.String(), { description: "Required labels." }),
  ),
  matchExpressions: Type.Optional(
    Type.Array(
      Type.Object({
        key: Type.String({ description: "Key of the label." }),
        operator: Type.String({ description: "In, NotIn, Exists or DoesNotExist." }),
        values: Type.Optional(Type.Array(Type.String(), { description: "Values of the label." })),
      }),
      { description: "Further requirements." },
    ),
  ),
});

const POLICY_PEERS = Type.Optional(
  Type.Array(
    Type.Object({
      podSelector: Type.Optional(SELECTOR),
      namespaceSelector: Type.Optional(SELECTOR),
      ipBlock: Type.Optional(
        Type.Object({
          cidr: Type.String({ description: "Block of addresses, such as 10.0.0.0/8." }),
          except: Type.Optional(
            Type.Array(Type.String(), { description: "Parts of the block that do not count." }),
          ),
        }),
      ),
    }),
    { description: "Peers; unset: all." },
  ),
);

const POLICY_PORTS = Type.Optional(
  Type.Array(
    Type.Object({
      protocol: Type.Optional(Type.String({ description: "TCP (default), UDP or SCTP." })),
      port: Type.Optional(
        Type.Unsafe<number | string>({
          description: "Number or name; unset: all ports.",
          "x-kubernetes-int-or-string": true,
        }),
      ),
      endPort: Type.Optional(Type.Integer({ description: "Last port of a range." })),
    }),
    { description: "Destination ports; unset: all." },
  ),
);

/** Spec of a MultiNetworkPolicy: a NetworkPolicy's, for the networks of an annotation. */
export const MultiNetworkPolicySpecSchema = Type.Object({
  podSelector: SELECTOR,
  policyTypes: Type.Optional(
    Type.Array(Type.String(), { description: "Isolated directions: Ingress, Egress." }),
  ),
  ingress: Type.Optional(
    Type.Array(Type.Object({ from: POLICY_PEERS, ports: POLICY_PORTS }), {
      description: "Allowed incoming traffic.",
    }),
  ),
  egress: Type.Optional(
    Type.Array(Type.Object({ to: POLICY_PEERS, ports: POLICY_PORTS }), {
      description: "Allowed outgoing traffic.",
    }),
  ),
});
