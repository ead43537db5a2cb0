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
      name: "the sum of its containers' requests",
      pod: podOf([asks({ cpu: "100m", memory: "1Gi" }), asks({ cpu: "0.2" })]),
      want: { cpu: 300, memory: GI, pods: 1 },
    },
    {
      name: "the limit if the request is missing",
      pod: podOf([aContainer({ resources: { limits: { memory: "1Gi" } } })]),
      want: { memory: GI, pods: 1 },
    },
    {
      name: "the largest init container's request if that is higher",
      pod: podOf([asks({ memory: "1Gi" })], [asks({ memory: "2Gi" }), asks({ memory: "3Gi" })]),
      want: { memory: 3 * GI, pods: 1 },
    },
    { name: "only a pod slot", pod: podOf([aContainer()]), want: { pods: 1 } },
  ])("$name", ({ pod, want }) => {
    expect(Object.fromEntries(computePodRequest(pod))).toEqual(want);
  });
});

describe("admission to a node with 2 processors, 4 GiB and 3 pods", () => {
  const node = nodeOf({ cpu: "2", memory: "4Gi", pods: "3" });
  test.each([
    {
      name: "a pod may request all resources",
      pod: [asks({ cpu: "2", memory: "4Gi" })],
      others: [],
      want: [],
    },
    {
      name: "fractions add up without rounding errors",
      pod: [asks({ cpu: "0.1" })],
      others: [podOf(Array.from({ length: 19 }, () => asks({ cpu: "0.1" })))],
      want: [],
    },
    {
      name: "a request above the capacity reports each resource",
      pod: [asks({ memory: String(4 * GI + 1), cpu: "2001m" })],
      others: [],
      want: ["Insufficient cpu", "Insufficient memory"],
    },
    {
      name: "resources of other pods are not available",
      pod: [asks({ memory: "3Gi" })],
      others: [podOf([asks({ memory: "1025Mi" })])],
      want: ["Insufficient memory"],
    },
    {
      name: "resources of finished pods are available",
      pod: [asks({ memory: "3Gi" })],
      others: [podOf([asks({ memory: "2Gi" })], [], "Failed")],
      want: [],
    },
    {
      name: "a fourth pod exceeds the pod limit",
      pod: [aContainer()],
      others: [podOf([aContainer()]), podOf([aContainer()]), podOf([aContainer()])],
      want: ["Too many pods"],
    },
    {
      name: "an unknown resource is insufficient unless the request is 0",
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
