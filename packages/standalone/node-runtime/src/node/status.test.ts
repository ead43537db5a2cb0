// SPDX-License-Identifier: Apache-2.0
import type { KubeNode, NodeCondition } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import type { MachineFacts } from "./machine.ts";
import { isStatusDue, buildNodeLabels, buildNodeStatus, type NodeStatus } from "./status.ts";

const NOW = "2026-11-28T10:00:00Z";
const NOW_MS = Date.UTC(2026, 10, 28, 10);
const GI = 2 ** 20;
const IDENTITY = {
  architecture: "arm64",
  hostIp: "192.0.2.1",
  bootId: "b",
  machineId: "m",
  systemUuid: "u",
  kernelVersion: "6.1",
  osImage: "Debian",
  runtimeVersion: "fake://1",
};

function aMachine(change: Partial<MachineFacts> = {}): MachineFacts {
  return {
    cpus: 2,
    memoryKiB: 4 * GI,
    memoryAvailableKiB: GI,
    diskKiB: 1000,
    diskFreeKiB: 500,
    threads: 1,
    threadsMax: 100,
    devices: [],
    hasDefaultNetwork: true,
    runtimeProblem: undefined,
    ...change,
  };
}

function aNode(conditions: readonly NodeCondition[]): KubeNode {
  return { apiVersion: "v1", kind: "Node", metadata: { name: "n" }, status: { conditions } };
}

function statusOf(machine: Partial<MachineFacts> = {}, before?: KubeNode): NodeStatus {
  const own = { name: "n", identity: IDENTITY, port: 10250, nowMs: NOW_MS, now: NOW };
  return buildNodeStatus(before, { ...own, machine: aMachine(machine) });
}

function condition(type: string, { conditions = [] }: NodeStatus): NodeCondition | undefined {
  return conditions.find((one) => one.type === type);
}

test("a node reports its addresses and its node info", () => {
  const { addresses, daemonEndpoints, nodeInfo } = statusOf();
  expect(addresses).toEqual([
    { type: "InternalIP", address: "192.0.2.1" },
    { type: "Hostname", address: "n" },
  ]);
  expect(daemonEndpoints).toEqual({ kubeletEndpoint: { Port: 10250 } });
  expect(nodeInfo).toMatchObject({ architecture: "arm64", osImage: "Debian", systemUUID: "u" });
  expect(buildNodeLabels("n", IDENTITY)["kubernetes.io/arch"]).toBe("arm64");
});

test.each([
  { name: "nothing", kib: 0, want: "0Ki" },
  { name: "no whole mebibytes", kib: 1025, want: "1025Ki" },
  { name: "mebibytes", kib: 3 * 1024, want: "3Mi" },
  { name: "gibibytes", kib: 2 * GI, want: "2Gi" },
  { name: "an amount above the largest unit", kib: 2 ** 40, want: "1024Ti" },
])("prints an amount in the largest unit that keeps it an integer: $name", ({ kib, want }) => {
  expect(statusOf({ diskKiB: kib }).capacity?.["ephemeral-storage"]).toBe(want);
});

test("extended resources that an administrator added are allocatable, as with a kubelet", () => {
  const before = aNode([]);
  const marker = { "bridge.network.kubevirt.io/br1": "1k" };
  const gone = { "devices.kubevirt.io/kvm": "1k", "vhost-user.patchbay.io/sockets": "1k" };
  const capacity = { ...marker, ...gone, cpu: "99", "hugepages-2Mi": "0" };
  const status = statusOf({}, { ...before, status: { ...before.status, capacity } });
  for (const amounts of [status.capacity, status.allocatable]) {
    expect(amounts).toMatchObject({ ...marker, cpu: "2" });
    expect(Object.keys(amounts ?? {})).not.toContain("devices.kubevirt.io/kvm");
  }
});

test.each<{ type: string; machine: Partial<MachineFacts>; want: [string, string, string] }>([
  {
    type: "Ready",
    machine: {},
    want: ["True", "NodeRuntimeReady", "the node runtime is ready"],
  },
  {
    type: "Ready",
    machine: { runtimeProblem: "no CNI" },
    want: ["False", "ContainerRuntimeNotReady", "no CNI"],
  },
  {
    type: "NetworkUnavailable",
    machine: {},
    want: [
      ...(["False", "DefaultNetworkConfigured"] as const),
      "the pods' default network is configured",
    ],
  },
  {
    type: "NetworkUnavailable",
    machine: { hasDefaultNetwork: false },
    want: [
      ...(["True", "NoDefaultNetwork"] as const),
      "the pods' default network has no configuration",
    ],
  },
  {
    type: "MemoryPressure",
    machine: { memoryAvailableKiB: 100 * 1024 },
    want: ["False", "HasSufficientMemory", "the machine has enough Memory"],
  },
  {
    type: "MemoryPressure",
    machine: { memoryAvailableKiB: 100 * 1024 - 1 },
    want: ["True", "HasInsufficientMemory", "the machine is low on Memory"],
  },
  {
    type: "DiskPressure",
    machine: { diskFreeKiB: 100 },
    want: ["False", "HasSufficientDisk", "the machine has enough Disk"],
  },
  {
    type: "DiskPressure",
    machine: { diskFreeKiB: 99 },
    want: ["True", "HasInsufficientDisk", "the machine is low on Disk"],
  },
  {
    type: "PIDPressure",
    machine: { threads: 90 },
    want: ["False", "HasSufficientPID", "the machine has enough PID"],
  },
  {
    type: "PIDPressure",
    machine: { threads: 91 },
    want: ["True", "HasInsufficientPID", "the machine is low on PID"],
  },
])("$type of $machine", ({ type, machine, want: [status, reason, message] }) => {
  expect(condition(type, statusOf(machine))).toEqual({
    type,
    status,
    reason,
    message,
    lastTransitionTime: NOW,
    lastHeartbeatTime: NOW,
  });
});

describe("a previously reported condition", () => {
  const ago = (ms: number): string => new Date(NOW_MS - ms).toISOString();
  const pressed = (ms: number): NodeCondition => ({
    type: "DiskPressure",
    status: "True",
    reason: "HasInsufficientDisk",
    message: "before",
    lastTransitionTime: ago(ms),
    lastHeartbeatTime: ago(1000),
  });
  const relieved = {
    status: "False" as const,
    reason: "HasSufficientDisk",
    lastTransitionTime: NOW,
  };
  test.each<{
    name: string;
    before: NodeCondition;
    machine?: Partial<MachineFacts>;
    want: Partial<NodeCondition>;
  }>([
    {
      name: "remains under pressure for five minutes",
      before: pressed(299_999),
      want: { ...pressed(299_999), lastHeartbeatTime: NOW },
    },
    { name: "is relieved after them", before: pressed(300_000), want: relieved },
    {
      name: "retains its transition time under pressure with a new message",
      before: pressed(1000),
      machine: { diskFreeKiB: 1 },
      want: { message: "the machine is low on Disk", lastTransitionTime: ago(1000) },
    },
    {
      name: "retains its transition time without pressure",
      before: { ...pressed(1000), status: "False" },
      want: { ...relieved, lastTransitionTime: ago(1000) },
    },
    {
      name: "gets a transition time if it is missing",
      before: { type: "DiskPressure", status: "False" },
      want: relieved,
    },
  ])("$name", ({ before, machine = {}, want }) => {
    const status = statusOf(machine, aNode([before]));
    expect(condition("DiskPressure", status)).toMatchObject(want);
    expect(status.conditions?.map(({ type }) => type)).toEqual([
      "DiskPressure",
      "NetworkUnavailable",
      "MemoryPressure",
      "PIDPressure",
      "Ready",
    ]);
  });

  test("changes at once if it is not a pressure condition", () => {
    const before = aNode([
      { type: "NetworkUnavailable", status: "True", lastTransitionTime: ago(1000) },
    ]);
    expect(condition("NetworkUnavailable", statusOf({}, before))?.status).toBe("False");
  });
});

test.each<{ name: string; before: KubeNode; want: boolean }>([
  { name: "an identical status", before: { ...aNode([]), status: statusOf() }, want: false },
  { name: "no conditions yet", before: aNode([]), want: true },
  {
    name: "no status yet",
    before: { apiVersion: "v1", kind: "Node", metadata: { name: "n" } },
    want: true,
  },
])("decides whether to write a status if the server has $name", ({ before, want }) => {
  expect(isStatusDue(before, statusOf(), NOW_MS)).toBe(want);
});

test("writes even an empty status if no status was reported before", () => {
  const { apiVersion, kind, metadata } = aNode([]);
  expect(isStatusDue({ apiVersion, kind, metadata }, {}, NOW_MS)).toBe(true);
  expect(isStatusDue({ apiVersion, kind, metadata, status: {} }, {}, NOW_MS)).toBe(true);
});
