// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aContainer, aPod } from "../testing/pods.ts";
import {
  parseAllocatable,
  computePodRequest,
  buildRejection,
  describeShortage,
  findShortages,
} from "./resources.ts";

const GI = 2 ** 30;

function asks(requests: Readonly<Record<string, string>>): Container {
  return aContainer({ resources: { requests } });
}

function podOf(
  containers: readonly Container[],
  initContainers: readonly Container[] = [],
  phase: "Running" | "Failed" = "Running",
): Pod {
  return { ...aPod({ containers, initContainers }), status: { phase } };
}

function nodeOf(allocatable: Readonly<Record<string, string>>) {
  const node = { apiVersion: "v1", kind: "Node", metadata: { name: "n" }, status: { allocatable } };
  return parseAllocatable(node) ?? new Map<string, number>();
}

describe("resources that a pod requests", () => {
  test.each([
    {
      name: "what its containers ask for together",
      pod: podOf([asks({ cpu: "100m", memory: "1Gi" }), asks({ cpu: "0.2" })]),
      want: { cpu: 300, memory: GI, pods: 1 },
    },
    {
      name: "the limit where no request is named",
      pod: podOf([aContainer({ resources: { limits: { memory: "1Gi" } } })]),
      want: { memory: GI, pods: 1 },
    },
    {
      name: "what its largest init container asks for, if that is more",
      pod: podOf([asks({ memory: "1Gi" })], [asks({ memory: "2Gi" }), asks({ memory: "3Gi" })]),
      want: { memory: 3 * GI, pods: 1 },
    },
    { name: "a place only", pod: podOf([aContainer()]), want: { pods: 1 } },
  ])("$name", ({ pod, want }) => {
    expect(Object.fromEntries(computePodRequest(pod))).toEqual(want);
  });
});

describe("admission to a node with 2 processors, 4 GiB and 3 pods", () => {
  const node = nodeOf({ cpu: "2", memory: "4Gi", pods: "3" });
  test.each([
    { name: "all of it is enough", pod: [asks({ cpu: "2", memory: "4Gi" })], others: [], want: [] },
    {
      name: "nineteen twentieths and a twentieth are enough",
      pod: [asks({ cpu: "0.1" })],
      others: [podOf(Array.from({ length: 19 }, () => asks({ cpu: "0.1" })))],
      want: [],
    },
    {
      name: "a byte more is short, and several things may be",
      pod: [asks({ memory: String(4 * GI + 1), cpu: "2001m" })],
      others: [],
      want: ["Insufficient cpu", "Insufficient memory"],
    },
    {
      name: "what others hold is short",
      pod: [asks({ memory: "3Gi" })],
      others: [podOf([asks({ memory: "1025Mi" })])],
      want: ["Insufficient memory"],
    },
    {
      name: "what pods held that are over is free",
      pod: [asks({ memory: "3Gi" })],
      others: [podOf([asks({ memory: "2Gi" })], [], "Failed")],
      want: [],
    },
    {
      name: "the fourth pod has no place",
      pod: [aContainer()],
      others: [podOf([aContainer()]), podOf([aContainer()]), podOf([aContainer()])],
      want: ["Too many pods"],
    },
    {
      name: "what the node does not have is short, and nothing of it is enough",
      pod: [asks({ "example.com/gpu": "1", "example.com/fan": "0" })],
      others: [],
      want: ["Insufficient example.com/gpu"],
    },
  ])("$name", ({ pod, others, want }) => {
    expect(findShortages(podOf(pod), others, node).map(describeShortage)).toEqual(want);
  });
});

test("a rejection contains all numbers, like a kubelet's", () => {
  const [shortage] = findShortages(
    podOf([asks({ cpu: "3" })]),
    [podOf([asks({ cpu: "500m" })])],
    nodeOf({ cpu: "2", pods: "9" }),
  );
  expect(shortage && buildRejection(shortage)).toEqual({
    reason: "OutOfcpu",
    message:
      "Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, used: 500, capacity: 2000",
  });
});
