// SPDX-License-Identifier: Apache-2.0
// What does the Node say? From facts; pure. A control plane that hears nothing for 40 s takes the node for dead.
import { names, type KubeNode, type NodeCondition } from "@patchbay/api";
import { covers, isExtendedResource } from "@patchbay/core";
import type { MachineFacts, MachineIdentity } from "./machine.ts";
import { podShareOf } from "./reserve.ts";

/** The status that the runtime writes. */
export type NodeStatus = NonNullable<KubeNode["status"]>;

/** Source: Kubernetes kubelet, maxPods. */
const PODS_MAX = "110";
/** How many VMs may have a device, as KubeVirt's device plugin; as a server prints it. */
const DEVICES_MAX = "1k";
/** Less memory than this is pressure, KiB. Source: Kubernetes kubelet, evictionHard memory.available. */
const MEMORY_LEAST_KIB = 100 * 1024;
/** Less of the disk and of the threads than this is pressure. Source: kubelet, evictionHard nodefs.available. */
const LEAST_PART = 0.1;
/** Pressure lasts at least so long: a value on the edge must not flap. Source: kubelet, evictionPressureTransitionPeriod. */
const PRESSURE_MS = 300_000;
/** A status that stays the same is written again after this long. Source: Kubernetes kubelet, nodeStatusReportFrequency. */
export const HEARTBEAT_MS = 300_000;
/** Whose API the runtime follows; a control plane compares it with its own. */
const KUBELET_VERSION = "v1.30.0+patchbay";

/** Names of architectures in Go, where they are others than in Node.js. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64" };

/** The machine, and the time at which that was seen; everything that the status says of its own. */
export interface NodeFacts {
  readonly name: string;
  readonly identity: MachineIdentity;
  readonly machine: MachineFacts;
  readonly nowMs: number;
  /** Now, RFC 3339. */
  readonly now: string;
  /** Where the API server asks for logs; 0: nowhere. */
  readonly port: number;
}

/** Labels that tell schedulers what the machine is. */
export function nodeLabelsOf(
  name: string,
  { architecture }: MachineIdentity,
): Readonly<Record<string, string>> {
  return {
    "kubernetes.io/arch": ARCHITECTURES[architecture] ?? architecture,
    "kubernetes.io/hostname": name,
    "kubernetes.io/os": "linux",
    // Selectors of KubeVirt's clients ask for it. Source: KubeVirt api/core/v1 types.go NodeSchedulable
    "kubevirt.io/schedulable": "true",
  };
}

/** As servers print it: the largest unit that leaves a whole number. Source: Kubernetes resource.Quantity. */
function printKiB(kib: number): string {
  const units = ["Ki", "Mi", "Gi", "Ti"];
  let unit = 0;
  let rest = kib;
  while (rest !== 0 && rest % 1024 === 0 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${String(rest)}${units[unit] ?? ""}`;
}

function resourcesOf(machine: MachineFacts): Readonly<Record<string, string>> {
  return {
    cpu: String(machine.cpus),
    memory: printKiB(machine.memoryKiB),
    "ephemeral-storage": printKiB(machine.diskKiB),
    pods: PODS_MAX,
    ...Object.fromEntries(machine.devices.map((resource) => [resource, DEVICES_MAX])),
  };
}

/** Domains of the resources that the runtime offers itself. */
const OWN_DOMAINS: readonly string[] = [names.TUN_RESOURCE, names.VHOST_USER_RESOURCE].map(
  (resource) => resource.replace(/\/.*/, "/"),
);

/**
 * Extended resources that an administrator or a marker DaemonSet added to the node's capacity. Source: Kubernetes kubelet,
 * nodestatus.MachineInfo, which copies capacity to allocatable.
 */
function foreignResourcesOf(before: KubeNode | undefined): Readonly<Record<string, string>> {
  const all = Object.entries(before?.status?.capacity ?? {});
  return Object.fromEntries(
    all.filter(
      ([resource]) =>
        isExtendedResource(resource) && !OWN_DOMAINS.some((domain) => resource.startsWith(domain)),
    ),
  );
}

/** Milliseconds since 1970; NaN for what is no time. */
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

function pressure(type: string, what: string, isShort: boolean): Finding {
  const reason = `${isShort ? "HasInsufficient" : "HasSufficient"}${what}`;
  const message = isShort ? `the machine is short of ${what}` : `the machine has enough ${what}`;
  return { type, isTrue: isShort, reason, message };
}

function readiness({ runtimeProblem }: MachineFacts): Finding {
  const isTrue = runtimeProblem === undefined;
  const reason = isTrue ? "NodeRuntimeReady" : "ContainerRuntimeNotReady";
  return { type: "Ready", isTrue, reason, message: runtimeProblem ?? "the node runtime is ready" };
}

function findingsOf(machine: MachineFacts): readonly Finding[] {
  const { threads, threadsMax, diskKiB, diskFreeKiB, hasDefaultNetwork } = machine;
  return [
    {
      type: "NetworkUnavailable",
      isTrue: !hasDefaultNetwork,
      reason: hasDefaultNetwork ? "DefaultNetworkConfigured" : "NoDefaultNetwork",
      message: hasDefaultNetwork
        ? "the default network of the pods is configured"
        : "the default network of the pods has no configuration",
    },
    pressure("MemoryPressure", "Memory", machine.memoryAvailableKiB < MEMORY_LEAST_KIB),
    pressure("DiskPressure", "Disk", diskFreeKiB < diskKiB * LEAST_PART),
    pressure("PIDPressure", "PID", threadsMax - threads < threadsMax * LEAST_PART),
    readiness(machine),
  ];
}

function isLasting(before: NodeCondition | undefined, finding: Finding, nowMs: number): boolean {
  if (before?.status !== "True" || finding.isTrue || !finding.type.endsWith("Pressure"))
    return false;
  return nowMs - parseTime(before.lastTransitionTime) < PRESSURE_MS;
}

function conditionOf(
  before: NodeCondition | undefined,
  finding: Finding,
  { now, nowMs }: NodeFacts,
): NodeCondition {
  const { type, isTrue, reason, message } = finding;
  if (before !== undefined && isLasting(before, finding, nowMs)) {
    return { ...before, lastHeartbeatTime: now };
  }
  const status = isTrue ? "True" : "False";
  const isSame = before?.status === status && before.lastTransitionTime !== undefined;
  const lastTransitionTime = isSame ? before.lastTransitionTime : now;
  return { type, status, reason, message, lastTransitionTime, lastHeartbeatTime: now };
}

/** In the order in which they are there; those of others stay. */
function conditionsOf(known: readonly NodeCondition[], facts: NodeFacts): readonly NodeCondition[] {
  const findings = findingsOf(facts.machine);
  const isNew = (finding: Finding): boolean => !known.some(({ type }) => type === finding.type);
  const kept = known.map((before) => {
    const finding = findings.find(({ type }) => type === before.type);
    return finding === undefined ? before : conditionOf(before, finding, facts);
  });
  return [...kept, ...findings.filter(isNew).map((one) => conditionOf(undefined, one, facts))];
}

/** The whole status; conditions of others stay as they are. */
export function nodeStatusOf(before: KubeNode | undefined, facts: NodeFacts): NodeStatus {
  const { name, identity, machine, port } = facts;
  const capacity = { ...foreignResourcesOf(before), ...resourcesOf(machine) };
  return {
    capacity,
    allocatable: { ...capacity, memory: printKiB(podShareOf(machine).memoryKiB) },
    conditions: conditionsOf(before?.status?.conditions ?? [], facts),
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
  const conditions = status.conditions?.map((one) => ({ ...one, lastHeartbeatTime: undefined }));
  return { ...status, conditions };
}

/** Whether the status is to be written: it says something new, or its last heartbeat is old. */
export function isStatusDue(before: KubeNode, status: NodeStatus, nowMs: number): boolean {
  if (!covers(before.status, withoutHeartbeats(status))) return true;
  const ready = before.status?.conditions?.find(({ type }) => type === "Ready");
  const sinceMs = Math.abs(nowMs - parseTime(ready?.lastHeartbeatTime));
  return !(sinceMs < HEARTBEAT_MS);
}
