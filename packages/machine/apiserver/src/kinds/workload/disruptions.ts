// SPDX-License-Identifier: Apache-2.0
// How many pods of a budget may be evicted now? Pure. Source: Kubernetes policy/v1, disruption controller. A pod that nobody
// scales counts as one that is expected: nothing here makes pods of a Deployment.
import { type Fields, fieldsOf, listOf, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { selectorMatcher } from "../selector.ts";

/** What a budget says of its pods. */
export interface Disruptions {
  readonly expectedPods: number;
  readonly currentHealthy: number;
  readonly desiredHealthy: number;
  readonly disruptionsAllowed: number;
}

/** Whether the pod has ended. */
export function isOver(pod: KubeObject): boolean {
  return ["Succeeded", "Failed"].includes(textAt(pod, "status", "phase"));
}

/** Whether the pod is ready, and is to stay. */
export function isHealthy(pod: KubeObject): boolean {
  const conditions = listOf(valueAt(pod, "status", "conditions"));
  const ready = conditions.find((condition) => textAt(condition, "type") === "Ready");
  return textAt(ready, "status") === "True" && pod.metadata.deletionTimestamp === undefined;
}

/** Whether a budget is about a pod of its namespace: asked of many pods, the selector is read once. */
export function ownPodsOf(budget: KubeObject): (pod: KubeObject) => boolean {
  const selector = valueAt(budget, "spec", "selector");
  if (selector === undefined) return () => false;
  const matches = selectorMatcher(selector);
  return (pod) => matches(pod.metadata.labels ?? {});
}

/** A number, or a part of the whole, rounded up. Source: Kubernetes intstr.GetScaledValueFromIntOrPercent */
function amountOf(value: unknown, whole: number): number {
  if (typeof value === "number") return value;
  const percent = Number(String(value).replace("%", ""));
  return Number.isFinite(percent) ? Math.ceil((percent * whole) / 100) : whole;
}

function desiredOf({ minAvailable, maxUnavailable }: Fields, expected: number): number {
  if (minAvailable !== undefined) return amountOf(minAvailable, expected);
  return maxUnavailable === undefined ? expected : expected - amountOf(maxUnavailable, expected);
}

/** `pods` are those of the budget's namespace. */
export function disruptionsOf(budget: KubeObject, pods: readonly KubeObject[]): Disruptions {
  const isOwn = ownPodsOf(budget);
  const own = pods.filter((pod) => isOwn(pod) && !isOver(pod));
  const [expectedPods, currentHealthy] = [own.length, own.filter(isHealthy).length];
  const desiredHealthy = Math.max(0, desiredOf(fieldsOf(budget["spec"]), expectedPods));
  const disruptionsAllowed = Math.max(0, currentHealthy - desiredHealthy);
  return { expectedPods, currentHealthy, desiredHealthy, disruptionsAllowed };
}
