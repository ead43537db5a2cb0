// SPDX-License-Identifier: Apache-2.0
// Builds the Node object's labels and status from observations of the machine.
import type { MachineFacts, MachineIdentity } from "./machine.ts";
import { names } from "@patchbay/api";
import type { KubeNode, NodeCondition } from "@patchbay/api/kubernetes";
import { covers } from "@patchbay/base";
import { parseTime } from "@patchbay/kube";
import { isExtendedResource } from "@patchbay/core/node";

/** Memory reserved for services, containerd and shims, in KiB: twice their measured usage. */
const RESERVED_MEMORY_KIB = 2 ** 20;
/** Maximum share of the machine's memory that is reserved. It limits the reservation on machines with less than 4 GiB. */
const RESERVED_MEMORY_SHARE = 0.25;
/** Share of the machine's processes and threads that pods may use. The remainder is for services and a login shell. */
const POD_PROCESSES_SHARE = 0.8;

interface PodQuota {
  readonly memoryKiB: number;
  readonly processes: number;
}

/** Computes limits for all pods together, so that the pods cannot starve the control plane on the same machine. */
export function computePodQuota({
  memoryKiB,
  threadsMax,
}: Pick<MachineFacts, "memoryKiB" | "threadsMax">): PodQuota {
  const reservedKiB = Math.min(RESERVED_MEMORY_KIB, Math.ceil(memoryKiB * RESERVED_MEMORY_SHARE));
  return {
    memoryKiB: memoryKiB - reservedKiB,
    processes: Math.floor(threadsMax * POD_PROCESSES_SHARE),
  };
}

export type NodeStatus = NonNullable<KubeNode["status"]>;

/** Source: maxPods of the kubelet. */
const PODS_MAX = "110";
/** Capacity of each device resource, as a canonical quantity. Source: device plugin of KubeVirt. */
const DEVICES_MAX = "1k";
/** Source: evictionHard of the kubelet, memory.available. */
const MEMORY_PRESSURE_KIB = 100 * 1024;
/** Free share of disk or threads below which pressure is reported. Source: evictionHard of the kubelet. */
const PRESSURE_SHARE = 0.1;
/** Minimum duration of a pressure condition, which prevents flapping. Source: evictionPressureTransitionPeriod of the kubelet. */
const PRESSURE_MIN_MS = 300_000;
/** Source: nodeStatusReportFrequency of the kubelet. */
export const STATUS_HEARTBEAT_MS = 300_000;
/** Kubelet version that the node reports, for control planes that check the version skew. */
const KUBELET_VERSION = "v1.30.0+patchbay";

/** Kubernetes names of architectures whose names in Node.js differ. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64" };

interface NodeFacts {
  readonly name: string;
  readonly identity: MachineIdentity;
  readonly machine: MachineFacts;
  readonly nowMs: number;
  readonly now: string;
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
    // Node selectors of KubeVirt's clients require this label. Source: NodeSchedulable of KubeVirt's api/core/v1.
    "kubevirt.io/schedulable": "true",
  };
}

/** Prints the size in the largest unit that yields a whole number. Source: resource.Quantity of Kubernetes. */
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

/** Lists the extended resources that other writers added. Source: nodestatus.MachineInfo of the kubelet. */
function listForeignResources(previous: KubeNode | undefined): Readonly<Record<string, string>> {
  const capacity = Object.entries(previous?.status?.capacity ?? {});
  return Object.fromEntries(
    capacity.filter(
      ([resource]) =>
        isExtendedResource(resource) && !OWN_DOMAINS.some((domain) => resource.startsWith(domain)),
    ),
  );
}

interface Finding {
  readonly type: string;
  readonly isTrue: boolean;
  readonly reason: string;
  readonly message: string;
}

function buildPressureFinding(type: string, resource: string, isUnderPressure: boolean): Finding {
  const reason = `${isUnderPressure ? "HasInsufficient" : "HasSufficient"}${resource}`;
  const message = isUnderPressure
    ? `the machine is low on ${resource}`
    : `the machine has enough ${resource}`;
  return { type, isTrue: isUnderPressure, reason, message };
}

function buildReadinessFinding({ runtimeProblem }: MachineFacts): Finding {
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
    buildPressureFinding(
      "MemoryPressure",
      "Memory",
      machine.memoryAvailableKiB < MEMORY_PRESSURE_KIB,
    ),
    buildPressureFinding("DiskPressure", "Disk", diskFreeKiB < diskKiB * PRESSURE_SHARE),
    buildPressureFinding("PIDPressure", "PID", threadsMax - threads < threadsMax * PRESSURE_SHARE),
    buildReadinessFinding(machine),
  ];
}

function isWithinMinimum(
  previous: NodeCondition | undefined,
  finding: Finding,
  nowMs: number,
): boolean {
  if (previous?.status !== "True" || finding.isTrue || !finding.type.endsWith("Pressure"))
    return false;
  return nowMs - parseTime(previous.lastTransitionTime ?? "") < PRESSURE_MIN_MS;
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

/** Builds the conditions. Preserves their order and the conditions of other writers. */
function buildConditions(
  previousConditions: readonly NodeCondition[],
  facts: NodeFacts,
): readonly NodeCondition[] {
  const findings = listFindings(facts.machine);
  const isNew = (finding: Finding): boolean =>
    !previousConditions.some(({ type }) => type === finding.type);
  const updated = previousConditions.map((previous) => {
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
  const sinceMs = Math.abs(nowMs - parseTime(ready?.lastHeartbeatTime ?? ""));
  return !(sinceMs < STATUS_HEARTBEAT_MS);
}
