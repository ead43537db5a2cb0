// SPDX-License-Identifier: Apache-2.0
// What does a node say of itself that has gone silent? Nothing that anybody knows. Pure.
import { type Fields, fieldsOf, listOf, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";

/** What only the node itself can say. Source: Kubernetes node-lifecycle-controller, nodeConditionTypeToTaintKeyStatusMap. */
const OWN_TYPES = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

const STOPPED = {
  status: "Unknown",
  reason: "NodeStatusUnknown",
  message: "Kubelet stopped posting node status.",
};
const NEVER = {
  status: "Unknown",
  reason: "NodeStatusNeverUpdated",
  message: "Kubelet never posted node status.",
};

/** The node with conditions that nobody knows; those that nobody knew already, and those of others, stay. */
export function withUnknownConditions(node: KubeObject, now: string): KubeObject {
  const status = fieldsOf(node["status"]);
  const known = listOf(status["conditions"]).map(fieldsOf);
  const stopped = (condition: Fields): Fields =>
    OWN_TYPES.includes(textAt(condition, "type")) && textAt(condition, "status") !== "Unknown"
      ? { ...condition, ...STOPPED, lastTransitionTime: now }
      : condition;
  const isMissing = (type: string): boolean =>
    !known.some((condition) => textAt(condition, "type") === type);
  const lastHeartbeatTime = node.metadata.creationTimestamp;
  const never = (type: string): Fields => ({
    type,
    ...NEVER,
    lastHeartbeatTime,
    lastTransitionTime: now,
  });
  const conditions = [...known.map(stopped), ...OWN_TYPES.filter(isMissing).map(never)];
  return { ...node, status: { ...status, conditions } };
}
