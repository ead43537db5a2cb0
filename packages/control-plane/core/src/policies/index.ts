// SPDX-License-Identifier: Apache-2.0
export {
  affectsPolicies,
  isSelectedBy,
  matchesLabels,
  toPolicyPod,
  type PolicyPod,
} from "./policy-pods.ts";
export {
  appliesPolicies,
  NO_NETWORK_POLICIES,
  planNetworkPolicies,
  toPolicyVm,
  trimPolicyVm,
  type PlannedNetworks,
  type PolicyVm,
} from "./multi-policy.ts";
export {
  affectsPeersOf,
  ALL_NAMESPACES,
  findPeerNamespace,
  ISOLATED,
  listNamespaceSelectors,
  planPodPolicy,
  type NicPolicy,
  type PlannedPolicy,
  type PortRange,
  type TrafficRule,
} from "./pod-policy.ts";
