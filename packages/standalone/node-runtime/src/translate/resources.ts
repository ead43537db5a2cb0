// SPDX-License-Identifier: Apache-2.0
import { names } from "@patchbay/api";
import type { Container, Pod } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import type {
  ContainerResources,
  ContainerDevice,
  ContainerMount,
} from "@patchbay/core/interfaces";

/** Default memory limit of a container, which prevents a pod from using all of the machine's memory. */
const DEFAULT_MEMORY_BYTES: number = 512 * 2 ** 20;
/** Source: QuotaPeriod of the kubelet. */
const CPU_PERIOD_US = 100_000;
// Source: MinQuotaPeriod and MinShares of the kubelet.
const MIN_QUOTA_US = 1_000;
const MIN_SHARES = 2;
const SHARES_PER_CPU = 1024;
// Values of oom_score_adj. Source: qos/policy.go of the kubelet.
const OOM_GUARANTEED = -997;
const OOM_BEST_EFFORT = 1000;

type QosClass = "Guaranteed" | "Burstable" | "BestEffort";

const QOS_RESOURCES = ["cpu", "memory"];

function parseAmount(
  amounts: Readonly<Record<string, string>> | undefined,
  resource: string,
): number | undefined {
  const quantity = amounts?.[resource];
  return quantity === undefined ? undefined : parseQuantity(quantity);
}

/** Returns the container's request of the resource; by default its limit, or else 0. Source: resource defaults of Kubernetes. */
export function findRequest({ resources }: Container, resource: string): number {
  return (
    parseAmount(resources?.requests, resource) ?? parseAmount(resources?.limits, resource) ?? 0
  );
}

function isGuaranteed(container: Container): boolean {
  return QOS_RESOURCES.every((resource) => {
    const limit = parseAmount(container.resources?.limits, resource) ?? 0;
    return limit > 0 && findRequest(container, resource) === limit;
  });
}

/** Source: "Quality of Service classes" of the Kubernetes documentation. */
export function findQosClass({ spec }: Pod): QosClass {
  const containers = [...(spec.initContainers ?? []), ...spec.containers];
  const hasRequest = (container: Container): boolean =>
    QOS_RESOURCES.some((resource) => findRequest(container, resource) > 0);
  if (!containers.some(hasRequest)) return "BestEffort";
  return containers.every(isGuaranteed) ? "Guaranteed" : "Burstable";
}

function computeOomScore(pod: Pod, container: Container, memoryBytes: number): number {
  const qos = findQosClass(pod);
  if (qos === "Guaranteed") return OOM_GUARANTEED;
  if (qos === "BestEffort") return OOM_BEST_EFFORT;
  const requestedShare = findRequest(container, "memory") / Math.max(memoryBytes, 1);
  const score = Math.floor(1000 - 1000 * requestedShare);
  return Math.min(Math.max(score, 1000 + OOM_GUARANTEED), OOM_BEST_EFFORT - 1);
}

/** Returns the memory limit in bytes. Defaults to the larger of {@link DEFAULT_MEMORY_BYTES} and the request. */
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
  const quota = Math.max(Math.floor(cpus * CPU_PERIOD_US), MIN_QUOTA_US);
  return {
    cpuShares: Math.max(shares, MIN_SHARES),
    ...(cpus > 0 && { cpuQuota: quota, cpuPeriod: CPU_PERIOD_US }),
    memoryLimitBytes: findMemoryLimit(container),
    oomScoreAdj: computeOomScore(pod, container, memoryBytes),
  };
}

/** Device files of extended resources. Source: device plugin of KubeVirt. */
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
