// SPDX-License-Identifier: Apache-2.0
export { affectsPolicies, toPolicyPod, type PolicyPod } from "./policy-pods.ts";
export {
  ISOLATED,
  planPodPolicy,
  type NicPolicy,
  type PlannedPolicy,
  type PortRange,
  type TrafficRule,
} from "./pod-policy.ts";
