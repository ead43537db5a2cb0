// SPDX-License-Identifier: Apache-2.0
// Resource requests of pods and what a node has left. Pure. Source: Kubernetes scheduler, NodeResourcesFit.
import {
  parseQuantity,
  type Container,
  type KubeNode,
  type Pod,
  isPodFinished,
} from "@patchbay/api";
import { findRequest } from "../translate/resources.ts";

/** By resource: CPU in thousandths, memory in bytes, others in units. */
export type Amounts = ReadonlyMap<string, number>;

/** Source: Kubernetes meaning of CPU. */
const PARTS_OF_CPU = 1000;

/** Sums of fractions such as 0.1 are inexact. */
function toUnits(resource: string, amount: number): number {
  return Math.ceil(resource === "cpu" ? Math.round(amount * 1e6) / (1e6 / PARTS_OF_CPU) : amount);
}

function listResourceNames({ resources }: Container): readonly string[] {
  return Object.keys({ ...resources?.limits, ...resources?.requests });
}

/** Init containers run one by one. Source: Kubernetes "Resource sharing within containers". */
export function computePodRequest({ spec }: Pod): Amounts {
  const { containers, initContainers = [] } = spec;
  const names = [...containers, ...initContainers].flatMap(listResourceNames);
  const unitsRequested = (one: Container, name: string): number =>
    toUnits(name, findRequest(one, name));
  const podRequests = [...new Set(names)].map((name) => {
    const together = containers.reduce((sum, one) => sum + unitsRequested(one, name), 0);
    return [
      name,
      Math.max(together, ...initContainers.map((one) => unitsRequested(one, name))),
    ] as const;
  });
  return new Map([...podRequests, ["pods", 1]]);
}

/** Undefined until the node reports its resources. */
export function parseAllocatable(node: KubeNode | undefined): Amounts | undefined {
  const allocatable = node?.status?.allocatable;
  if (allocatable === undefined) return undefined;
  const amounts = Object.entries(allocatable).map(
    ([name, quantity]) => [name, toUnits(name, parseQuantity(quantity) ?? 0)] as const,
  );
  return new Map(amounts);
}

/** In the units of {@link Amounts}. */
interface Shortage {
  readonly resource: string;
  readonly requested: number;
  readonly used: number;
  readonly capacity: number;
}

/** A pod that is being deleted still uses its requests. */
function sumRequests(pods: readonly Pod[]): Amounts {
  const used = new Map<string, number>();
  for (const pod of pods.filter((one) => !isPodFinished(one))) {
    for (const [name, amount] of computePodRequest(pod))
      used.set(name, (used.get(name) ?? 0) + amount);
  }
  return used;
}

/** Resources that `pod` lacks beside `others`, sorted by name. */
export function findShortages(
  pod: Pod,
  otherPods: readonly Pod[],
  allocatable: Amounts,
): readonly Shortage[] {
  const used = sumRequests(otherPods);
  return [...computePodRequest(pod)]
    .map(([resource, requested]) => ({
      resource,
      requested,
      used: used.get(resource) ?? 0,
      capacity: allocatable.get(resource) ?? 0,
    }))
    .filter((one) => one.requested > 0 && one.used + one.requested > one.capacity)
    .sort((one, other) => (one.resource < other.resource ? -1 : 1));
}

/** Source: Kubernetes noderesources/fit.go. */
export function describeShortage({ resource }: Shortage): string {
  return resource === "pods" ? "Too many pods" : `Insufficient ${resource}`;
}

/** Source: Kubernetes pkg/kubelet/lifecycle, InsufficientResourceError. */
export function buildRejection({ resource, requested, used, capacity }: Shortage): {
  readonly reason: string;
  readonly message: string;
} {
  const numbers = `requested: ${String(requested)}, used: ${String(used)}, capacity: ${String(capacity)}`;
  return {
    reason: `OutOf${resource}`,
    message: `Pod was rejected: Node didn't have enough resource: ${resource}, ${numbers}`,
  };
}
