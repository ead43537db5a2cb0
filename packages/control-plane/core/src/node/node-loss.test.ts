// SPDX-License-Identifier: Apache-2.0
import type { VmiPhase } from "@patchbay/api";
import type { KubeNode } from "@patchbay/api/kubernetes";
import { expect, test } from "vitest";
import {
  isNodeUnresponsive,
  findNodeLoss,
  offeredResources,
  trimNode,
  hasRun,
} from "./node-loss.ts";
import { aVmi } from "@patchbay/support";

type Ready = "True" | "False" | "Unknown";

function aNode(ready: Ready | undefined, taint?: string): KubeNode {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "node1", uid: "u", resourceVersion: "7", labels: { many: "more" } },
    spec: { taints: taint === undefined ? [] : [{ key: taint, effect: "NoExecute" }] },
    status: {
      conditions: [
        { type: "DiskPressure", status: "Unknown" },
        ...(ready === undefined ? [] : [{ type: "Ready", status: ready, reason: "x" }]),
      ],
      allocatable: { cpu: "4" },
    },
  };
}

test.each([
  { name: "a ready node", node: aNode("True"), want: false },
  { name: "a node that reports not ready", node: aNode("False"), want: false },
  { name: "a node with unknown status", node: aNode("Unknown"), want: true },
  { name: "a node that has never reported", node: aNode(undefined), want: false },
  {
    name: "a node marked as unreachable",
    node: aNode("True", "node.kubernetes.io/unreachable"),
    want: true,
  },
  {
    name: "a node marked as not ready",
    node: aNode("False", "node.kubernetes.io/not-ready"),
    want: false,
  },
  { name: "none", node: undefined, want: false },
])("decides whether a node is unresponsive: $name", ({ node, want }) => {
  expect(isNodeUnresponsive(node)).toBe(want);
  expect(isNodeUnresponsive(node && trimNode(node))).toBe(want);
  expect(findNodeLoss(node)?.reason).toBe(want ? "NodeUnresponsive" : undefined);
});

test("caches only the used fields of a node", () => {
  expect(trimNode(aNode("True", "other"))).toEqual({
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "node1", uid: "u", resourceVersion: "7", labels: { many: "more" } },
    spec: { taints: [] },
    status: { conditions: [{ type: "Ready", status: "True" }] },
  });
});

test("names the node and the solution", () => {
  expect(findNodeLoss(aNode("Unknown"))?.message).toMatch(
    /^node node1 does not respond: .*delete node node1/,
  );
});

test("pods may request the extended resources that any node has", () => {
  const withCapacity = (capacity: Record<string, string>) => {
    const node = aNode("True");
    return trimNode({ ...node, status: { ...node.status, capacity } });
  };
  const nodes = [
    withCapacity({ cpu: "2", memory: "1Gi", "vendor.io/nic": "0" }),
    withCapacity({ "bridge.network.kubevirt.io/br1": "1k", "kubernetes.io/x": "1" }),
    trimNode(aNode("True")),
  ];
  expect([...offeredResources(nodes)]).toEqual(["vendor.io/nic", "bridge.network.kubevirt.io/br1"]);
});

test.each<{ phase: VmiPhase; before: readonly VmiPhase[]; want: boolean }>([
  { phase: "Running", before: [], want: true },
  { phase: "Scheduled", before: ["Scheduling"], want: false },
  { phase: "Unknown", before: ["Scheduled", "Running"], want: true },
  { phase: "Unknown", before: ["Scheduled"], want: false },
  { phase: "Failed", before: ["Running"], want: false },
])("decides whether a guest has run: $phase after $before", ({ phase, before, want }) => {
  const phaseTransitionTimestamps = before.map((each) => ({
    phase: each,
    phaseTransitionTimestamp: "2026-01-01T00:00:00Z",
  }));
  expect(hasRun(aVmi({ status: { phase, phaseTransitionTimestamps } }))).toBe(want);
  expect(hasRun(aVmi({ status: { phase } }))).toBe(phase === "Running");
});
