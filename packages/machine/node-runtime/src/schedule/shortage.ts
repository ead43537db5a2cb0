// SPDX-License-Identifier: Apache-2.0
// Which resources of the node does a pod want more of than is left? Pure. Source: Kubernetes scheduler, NodeResourcesFit.
import { isPodFinished, type Pod } from "@patchbay/api";
import { podRequestOf, type Amounts } from "./amounts.ts";

/** A resource of which too little is left, in the units of {@link Amounts}. */
export interface Shortage {
  readonly resource: string;
  readonly requested: number;
  readonly used: number;
  readonly capacity: number;
}

/** Pods that hold what they asked for: one that is being deleted does until it is gone. */
function usedBy(pods: readonly Pod[]): Amounts {
  const used = new Map<string, number>();
  for (const pod of pods.filter((one) => !isPodFinished(one))) {
    for (const [name, amount] of podRequestOf(pod)) used.set(name, (used.get(name) ?? 0) + amount);
  }
  return used;
}

/** What is short for `pod` beside `others`, by name of the resource; none: it fits. */
export function shortagesOf(
  pod: Pod,
  others: readonly Pod[],
  allocatable: Amounts,
): readonly Shortage[] {
  const used = usedBy(others);
  return [...podRequestOf(pod)]
    .map(([resource, requested]) => ({
      resource,
      requested,
      used: used.get(resource) ?? 0,
      capacity: allocatable.get(resource) ?? 0,
    }))
    .filter((one) => one.requested > 0 && one.used + one.requested > one.capacity)
    .sort((one, other) => (one.resource < other.resource ? -1 : 1));
}

/** As a scheduler says it. Source: Kubernetes noderesources/fit.go. */
export function sayShortage({ resource }: Shortage): string {
  return resource === "pods" ? "Too many pods" : `Insufficient ${resource}`;
}

/** As a kubelet refuses a pod. Source: Kubernetes pkg/kubelet/lifecycle, InsufficientResourceError. */
export function sayRefusal({ resource, requested, used, capacity }: Shortage): {
  readonly reason: string;
  readonly message: string;
} {
  const numbers = `requested: ${String(requested)}, used: ${String(used)}, capacity: ${String(capacity)}`;
  return {
    reason: `OutOf${resource}`,
    message: `Pod was rejected: Node didn't have enough resource: ${resource}, ${numbers}`,
  };
}
