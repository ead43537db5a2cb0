// SPDX-License-Identifier: Apache-2.0
// Compares resource requests of pods with a node's resources. Source: NodeResourcesFit of Kubernetes' scheduler.
import { type Container, type KubeNode, type Pod, isPodFinished } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import { findRequest } from "../translate/resources.ts";

/** Amounts by resource: CPU in millicores, memory in bytes, other resources as counts. */
export type Amounts = ReadonlyMap<string, number>;

const MILLIS_PER_CPU = 1000;

/** Converts an amount to whole units, rounded up. First rounds CPU to millionths, so that a floating-point error adds no unit. */
function toUnits(resource: string, amount: number): number {
  return Math.ceil(resource === "cpu" ? Math.round(amount * 1e6) / (1e6 / MILLIS_PER_CPU) : amount);
}

function listResourceNames({ resources }: Container): readonly string[] {
  return Object.keys({ ...resources?.limits, ...resources?.requests });
}

/** Computes a pod's request. Each amount is the sum over the containers or, if larger, the largest request of an init container. */
export function computePodRequest({ spec }: Pod): Amounts {
  const { containers, initContainers = [] } = spec;
  const names = [...containers, ...initContainers].flatMap(listResourceNames);
  const unitsRequested = (container: Container, name: string): number =>
    toUnits(name, findRequest(container, name));
  const podRequests = [...new Set(names)].map((name) => {
    const total = containers.reduce((sum, container) => sum + unitsRequested(container, name), 0);
    return [
      name,
      Math.max(total, ...initContainers.map((container) => unitsRequested(container, name))),
    ] as const;
  });
  return new Map([...podRequests, ["pods", 1]]);
}

/** Parses the node's allocatable resources. Returns undefined until the node reports them. */
export function parseAllocatable(node: KubeNode | undefined): Amounts | undefined {
  const allocatable = node?.status?.allocatable;
  if (allocatable === undefined) return undefined;
  const amounts = Object.entries(allocatable).map(
    ([name, quantity]) => [name, toUnits(name, parseQuantity(quantity) ?? 0)] as const,
  );
  return new Map(amounts);
}

/** Resource of which a node has too little for a pod. The numbers have the units of {@link Amounts}. */
interface Shortage {
  readonly resource: string;
  readonly requested: number;
  readonly used: number;
  readonly capacity: number;
}

function sumRequests(pods: readonly Pod[]): Amounts {
  const usedAmounts = new Map<string, number>();
  for (const pod of pods.filter((one) => !isPodFinished(one))) {
    for (const [name, amount] of computePodRequest(pod))
      usedAmounts.set(name, (usedAmounts.get(name) ?? 0) + amount);
  }
  return usedAmounts;
}

/** Lists the resources that do not suffice for `pod` and `otherPods` together, sorted by name. */
export function findShortages(
  pod: Pod,
  otherPods: readonly Pod[],
  allocatable: Amounts,
): readonly Shortage[] {
  const usedAmounts = sumRequests(otherPods);
  return [...computePodRequest(pod)]
    .map(([resource, requested]) => ({
      resource,
      requested,
      used: usedAmounts.get(resource) ?? 0,
      capacity: allocatable.get(resource) ?? 0,
    }))
    .filter((one) => one.requested > 0 && one.used + one.requested > one.capacity)
    .sort((one, other) => (one.resource < other.resource ? -1 : 1));
}

/** Source: noderesources/fit.go of Kubernetes. */
export function describeShortage({ resource }: Shortage): string {
  return resource === "pods" ? "Too many pods" : `Insufficient ${resource}`;
}

/** Source: InsufficientResourceError in pkg/kubelet/lifecycle of Kubernetes. */
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
