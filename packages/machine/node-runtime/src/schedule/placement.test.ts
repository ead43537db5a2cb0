// SPDX-License-Identifier: Apache-2.0
import type { KubeNode } from "@patchbay/api";
import { expect, test } from "vitest";
import { aContainer, aPod } from "../testing/pods.ts";
import { whyNotPlaced } from "./placement.ts";

const node: KubeNode = {
  apiVersion: "v1",
  kind: "Node",
  metadata: { name: "n", labels: { zone: "a" } },
  status: { allocatable: { cpu: "2", memory: "4Gi", pods: "2" } },
};
const large = aContainer({ resources: { requests: { memory: "5Gi", cpu: "3" } } });

test.each([
  { name: "a pod that asks for nothing", spec: {}, want: undefined },
  { name: "a label that is there", spec: { nodeSelector: { zone: "a" } }, want: undefined },
  {
    name: "labels that are not",
    spec: { nodeSelector: { zone: "b", rack: "7" }, containers: [large] },
    want: "node n does not have rack=7, zone=b",
  },
  {
    name: "more than the node has",
    spec: { containers: [large] },
    want: "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
  },
  {
    name: "no place left",
    others: [aPod(), aPod()],
    want: "0/1 nodes are available: 1 Too many pods.",
  },
])("$name", ({ spec, others = [], want }) => {
  expect(whyNotPlaced(aPod(spec), node, others)).toBe(want);
});

test.each([
  {
    name: "a node that was cordoned",
    spec: { unschedulable: true },
    want: "0/1 nodes are available: 1 node(s) were unschedulable.",
  },
  {
    name: "a taint that the pod does not tolerate",
    spec: { taints: [{ key: "rack", value: "7", effect: "NoExecute" }] } as const,
    want: "0/1 nodes are available: 1 node(s) had untolerated taint {rack: 7}.",
  },
])("$name takes no new pod", ({ spec, want }) => {
  expect(whyNotPlaced(aPod(), { ...node, spec }, [])).toBe(want);
  const tolerations = [{ operator: "Exists" }];
  expect(whyNotPlaced(aPod({ tolerations }), { ...node, spec }, [])).toBeUndefined();
});

test("a node that has not told what it has gets no pod", () => {
  const { apiVersion, kind, metadata } = node;
  expect(whyNotPlaced(aPod(), { apiVersion, kind, metadata }, [])).toMatch(/have not reported/);
});
