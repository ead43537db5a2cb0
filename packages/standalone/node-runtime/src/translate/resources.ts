// SPDX-License-Identifier: Apache-2.0
// Kernel limits and devices of a container, from its requests and limits.
import { parseQuantity, type Container, type Pod, names } from "@patchbay/api";
import type {
  ContainerResources,
  ContainerDevice,
  ContainerMount,
} from "@patchbay/core/interfaces";

/** No pod can use the machine's whole memory. */
const DEFAULT_MEMORY_BYTES: number = 512 * 2 ** 20;
/** Microseconds. Source: Kubernetes kubelet cm, QuotaPeriod. */
const CPU_PERIOD = 100_000;
/** Source: Kubernetes kubelet cm, MinQuotaPeriod and MinShares. */
const MIN_QUOTA = 1_000;
const MIN_SHARES = 2;
const SHARES_PER_CPU = 1024;
/** Source: Kubernetes kubelet qos/policy.go. */
const OOM_GUARANTEED = -997;
const OOM_BEST_EFFORT = 1000;

/** Source: Kubernetes core/v1 PodQOSClass. */
type QosClass = "Guaranteed" | "Burstable" | "BestEffort";

const COUNTED = ["cpu", "memory"];

function parseAmount(
  amounts: Readonly<Record<string, string>> | undefined,
  resource: string,
): number | undefined {
  const quantity = amounts?.[resource];
  return quantity === undefined ? undefined : parseQuantity(quantity);
}

/** A limit without a request counts as the request. Source: Kubernetes defaulting of resources. */
export function findRequest({ resources }: Container, resource: string): number {
  return (
    parseAmount(resources?.requests, resource) ?? parseAmount(resources?.limits, resource) ?? 0
  );
}

function isGuaranteed(container: Container): boolean {
  return COUNTED.every((resource) => {
    const limit = parseAmount(container.resources?.limits, resource) ?? 0;
    return limit > 0 && findRequest(container, resource) === limit;
  });
}

/** Source: Kubernetes "Quality of Service classes". */
export function findQosClass({ spec }: Pod): QosClass {
  const all = [...(spec.initContainers ?? []), ...spec.containers];
  const isPromised = (one: Container): boolean =>
    COUNTED.some((resource) => findRequest(one, resource) > 0);
  if (!all.some(isPromised)) return "BestEffort";
  return all.every(isGuaranteed) ? "Guaranteed" : "Burstable";
}

function computeOomScore(pod: Pod, container: Container, memoryBytes: number): number {
  const qos = findQosClass(pod);
  if (qos === "Guaranteed") return OOM_GUARANTEED;
  if (qos === "BestEffort") return OOM_BEST_EFFORT;
  const part = findRequest(container, "memory") / Math.max(memoryBytes, 1);
  const score = Math.floor(1000 - 1000 * part);
  return Math.min(Math.max(score, 1000 + OOM_GUARANTEED), OOM_BEST_EFFORT - 1);
}

/** Returns the container's limit, or else the larger of {@link DEFAULT_MEMORY_BYTES} and its request, bytes. */
export function findMemoryLimit(container: Container): number {
  const limit = parseAmount(container.resources?.limits, "memory") ?? 0;
  if (limit > 0) return Math.ceil(limit);
  return Math.ceil(Math.max(findRequest(container, "memory"), DEFAULT_MEMORY_BYTES));
}

export function toContainerResources(
  pod: Pod,
  container: Container,
  memoryBytes: number,
): ContainerResources {
  const shares = Math.floor(findRequest(container, "cpu") * SHARES_PER_CPU);
  const cpus = parseAmount(container.resources?.limits, "cpu") ?? 0;
  const quota = Math.max(Math.floor(cpus * CPU_PERIOD), MIN_QUOTA);
  return {
    cpuShares: Math.max(shares, MIN_SHARES),
    ...(cpus > 0 && { cpuQuota: quota, cpuPeriod: CPU_PERIOD }),
    memoryLimitBytes: findMemoryLimit(container),
    oomScoreAdj: computeOomScore(pod, container, memoryBytes),
  };
}

/** Source: KubeVirt device plugin. */
export const DEVICES: readonly (readonly [resource: string, device: string])[] = [
  [names.KVM_RESOURCE, "/dev/kvm"],
  [names.TUN_RESOURCE, "/dev/net/tun"],
  [names.VHOST_NET_RESOURCE, "/dev/vhost-net"],
];

export function toDevices({ resources }: Container): readonly ContainerDevice[] {
  const limits = resources?.limits ?? {};
  return DEVICES.filter(([resource]) => limits[resource] !== undefined).map(([, path]) => {
    return { containerPath: path, hostPath: path, permissions: "rw" };
  });
}

export function requestsSockets({ resources }: Container): boolean {
  return resources?.limits?.[names.VHOST_USER_RESOURCE] !== undefined;
}

export function toSocketMounts(container: Container, podUid: string): readonly ContainerMount[] {
  if (!requestsSockets(container)) return [];
  return [
    {
      containerPath: `${names.VHOST_USER_DIR}/${podUid}`,
      hostPath: `${names.VHOST_USER_LAUNCHER_DIR}/${podUid}`,
      readonly: true,
      propagation: "PRIVATE",
    },
  ];
}
