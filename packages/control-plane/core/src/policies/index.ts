// SPDX-License-Identifier: Apache-2.0
export { affectsPolicies, toPolicyPod, type PolicyPod } from "./policy-pods.ts";
export {
  affectsNetworkPolicies,
  appliesPolicies,
  NO_NETWORK_POLICIES,
  planNetworkPolicies,
  toPolicyVm,
  trimPolicyVm,
  type PlannedNetworks,
  type PolicyVm,
} from "./multi-policy.ts";
export {
  ISOLATED,
  planPodPolicy,
  type NicPolicy,
  type PlannedPolicy,
  type PortRange,
  type TrafficRule,
} from "./pod-policy.ts";
