// SPDX-License-Identifier: Apache-2.0
// The Node object's status, derived from facts. Pure.
import type { MachineFacts, MachineIdentity } from "./machine.ts";
import { names, type KubeNode, type NodeCondition } from "@patchbay/api";
import { covers } from "@patchbay/base";
import { isExtendedResource } from "@patchbay/core/node";

/** Twice the measured use of the services, containerd and its shims. Source: docs/performance.md. */
const RESERVED_MEMORY_KIB = 2 ** 20;
/** The services use less on small machines. */
const RESERVED_MEMORY_SHARE = 0.25;
/** Leaves processes for the services and a login shell. */
const POD_PROCESSES_SHARE = 0.8;

interface PodQuota {
  readonly memoryKiB: number;
  /** Processes and threads. */
  readonly processes: number;
}

/** The control plane shares the machine and must survive greedy pods. */
export function computePodQuota({
  memoryKiB,
  threadsMax,
}: Pick<MachineFacts, "memoryKiB" | "threadsMax">): PodQuota {
  const reserved = Math.min(RESERVED_MEMORY_KIB, Math.ceil(memoryKiB * RESERVED_MEMORY_SHARE));
  return {
    memoryKiB: memoryKiB - reserved,
    processes: Math.floor(threadsMax * POD_PROCESSES_SHARE),
  };
}

export type NodeStatus = NonNullable<KubeNode["status"]>;

/** Source: Kubernetes kubelet, maxPods. */
const PODS_MAX = "110";
/** Like KubeVirt's device plugin; in the canonical form of a quantity. */
const DEVICES_MAX = "1k";
/** Source: Kubernetes kubelet, evictionHard memory.available. */
const MEMORY_PRESSURE_KIB = 100 * 1024;
/** Of free disk and of free threads. Source: kubelet, evictionHard nodefs.available. */
const PRESSURE_SHARE = 0.1;
/** Prevents flapping. Source: kubelet, evictionPressureTransitionPeriod. */
const PRESSURE_MIN_MS = 300_000;
/** Source: Kubernetes kubelet, nodeStatusReportFrequency. */
export const STATUS_HEARTBEAT_MS = 300_000;
/** A control plane checks the version skew. */
const KUBELET_VERSION = "v1.30.0+patchbay";

/** Go's names. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64" };

interface NodeFacts {
  readonly name: string;
  readonly identity: MachineIdentity;
  readonly machine: MachineFacts;
  readonly nowMs: number;
  /** RFC 3339. */
  readonly now: string;
  /** Port of the kubelet API; 0 when it is not served. */
  readonly port: number;
}

export function buildNodeLabels(
  name: string,
  { architecture }: MachineIdentity,
): Readonly<Record<string, string>> {
  return {
    "kubernetes.io/arch": ARCHITECTURES[architecture] ?? architecture,
    "kubernetes.io/hostname": name,
    "kubernetes.io/os": "linux",
    // Required by node selectors of KubeVirt's clients. Source: KubeVirt api/core/v1 types.go NodeSchedulable
    "kubevirt.io/schedulable": "true",
  };
}

/** The largest unit with a whole number. Source: Kubernetes resource.Quantity. */
function printKiB(kib: number): string {
  const units = ["Ki", "Mi", "Gi", "Ti"];
  let unit = 0;
  let amount = kib;
  while (amount !== 0 && amount % 1024 === 0 && unit < units.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${String(amount)}${units[unit] ?? ""}`;
}

function listNodeResources(machine: MachineFacts): Readonly<Record<string, string>> {
  return {
    cpu: String(machine.cpus),
    memory: printKiB(machine.memoryKiB),
    "ephemeral-storage": printKiB(machine.diskKiB),
    pods: PODS_MAX,
    ...Object.fromEntries(machine.devices.map((resource) => [resource, DEVICES_MAX])),
  };
}

const OWN_DOMAINS: readonly string[] = [names.TUN_RESOURCE, names.VHOST_USER_RESOURCE].map(
  (resource) => resource.replace(/\/.*/, "/"),
);

/** Resources that other writers added. Source: Kubernetes kubelet, nodestatus.MachineInfo. */
function listForeignResources(previous: KubeNode | undefined): Readonly<Record<string, string>> {
  const all = Object.entries(previous?.status?.capacity ?? {});
  return Object.fromEntries(
    all.filter(
      ([resource]) =>
        isExtendedResource(resource) && !OWN_DOMAINS.some((domain) => resource.startsWith(domain)),
    ),
  );
}

/** Milliseconds since 1970; NaN when the text is no time. */
function parseTime(text: string | undefined): number {
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  return Date.parse(text ?? "");
}

interface Finding {
  readonly type: string;
  readonly isTrue: boolean;
  readonly reason: string;
  readonly message: string;
}

function pressure(type: string, what: string, isUnderPressure: boolean): Finding {
  const reason = `${isUnderPressure ? "HasInsufficient" : "HasSufficient"}${what}`;
  const message = isUnderPressure
    ? `the machine is low on ${what}`
    : `the machine has enough ${what}`;
  return { type, isTrue: isUnderPressure, reason, message };
}

function readiness({ runtimeProblem }: MachineFacts): Finding {
  const isTrue = runtimeProblem === undefined;
  const reason = isTrue ? "NodeRuntimeReady" : "ContainerRuntimeNotReady";
  return { type: "Ready", isTrue, reason, message: runtimeProblem ?? "the node runtime is ready" };
}

function listFindings(machine: MachineFacts): readonly Finding[] {
  const { threads, threadsMax, diskKiB, diskFreeKiB, hasDefaultNetwork } = machine;
  return [
    {
      type: "NetworkUnavailable",
      isTrue: !hasDefaultNetwork,
      reason: hasDefaultNetwork ? "DefaultNetworkConfigured" : "NoDefaultNetwork",
      message: hasDefaultNetwork
        ? "the pods' default network is configured"
        : "the pods' default network has no configuration",
    },
    pressure("MemoryPressure", "Memory", machine.memoryAvailableKiB < MEMORY_PRESSURE_KIB),
    pressure("DiskPressure", "Disk", diskFreeKiB < diskKiB * PRESSURE_SHARE),
    pressure("PIDPressure", "PID", threadsMax - threads < threadsMax * PRESSURE_SHARE),
    readiness(machine),
  ];
}

function isWithinMinimum(
  previous: NodeCondition | undefined,
  finding: Finding,
  nowMs: number,
): boolean {
  if (previous?.status !== "True" || finding.isTrue || !finding.type.endsWith("Pressure"))
    return false;
  return nowMs - parseTime(previous.lastTransitionTime) < PRESSURE_MIN_MS;
}

function buildCondition(
  previous: NodeCondition | undefined,
  finding: Finding,
  { now, nowMs }: NodeFacts,
): NodeCondition {
  const { type, isTrue, reason, message } = finding;
  if (previous !== undefined && isWithinMinimum(previous, finding, nowMs)) {
    return { ...previous, lastHeartbeatTime: now };
  }
  const status = isTrue ? "True" : "False";
  const isSame = previous?.status === status && previous.lastTransitionTime !== undefined;
  const lastTransitionTime = isSame ? previous.lastTransitionTime : now;
  return { type, status, reason, message, lastTransitionTime, lastHeartbeatTime: now };
}

/** Preserves the order, and the conditions of other writers. */
function buildConditions(
  known: readonly NodeCondition[],
  facts: NodeFacts,
): readonly NodeCondition[] {
  const findings = listFindings(facts.machine);
  const isNew = (finding: Finding): boolean => !known.some(({ type }) => type === finding.type);
  const updated = known.map((previous) => {
    const finding = findings.find(({ type }) => type === previous.type);
    return finding === undefined ? previous : buildCondition(previous, finding, facts);
  });
  return [
    ...updated,
    ...findings.filter(isNew).map((condition) => buildCondition(undefined, condition, facts)),
  ];
}

export function buildNodeStatus(previous: KubeNode | undefined, facts: NodeFacts): NodeStatus {
  const { name, identity, machine, port } = facts;
  const capacity = { ...listForeignResources(previous), ...listNodeResources(machine) };
  return {
    capacity,
    allocatable: { ...capacity, memory: printKiB(computePodQuota(machine).memoryKiB) },
    conditions: buildConditions(previous?.status?.conditions ?? [], facts),
    addresses: [
      { type: "InternalIP", address: identity.hostIp },
      { type: "Hostname", address: name },
    ],
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
    nodeInfo: {
      machineID: identity.machineId,
      systemUUID: identity.systemUuid,
      bootID: identity.bootId,
      kernelVersion: identity.kernelVersion,
      osImage: identity.osImage,
      containerRuntimeVersion: identity.runtimeVersion,
      kubeletVersion: KUBELET_VERSION,
      kubeProxyVersion: "",
      operatingSystem: "linux",
      architecture: ARCHITECTURES[identity.architecture] ?? identity.architecture,
    },
  };
}

function withoutHeartbeats(status: NodeStatus): object {
  const conditions = status.conditions?.map((condition) => ({
    ...condition,
    lastHeartbeatTime: undefined,
  }));
  return { ...status, conditions };
}

export function isStatusDue(previous: KubeNode, status: NodeStatus, nowMs: number): boolean {
  if (!covers(previous.status, withoutHeartbeats(status))) return true;
  const ready = previous.status?.conditions?.find(({ type }) => type === "Ready");
  const sinceMs = Math.abs(nowMs - parseTime(ready?.lastHeartbeatTime));
  return !(sinceMs < STATUS_HEARTBEAT_MS);
}
