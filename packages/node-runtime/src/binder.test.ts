// SPDX-License-Identifier: Apache-2.0
import type { KubeNode } from "@patchbay/api";
import { expect, test } from "vitest";
import { selectorProblem } from "./binder.ts";
import { aPod } from "./testing/pods.ts";

const node: KubeNode = {
  apiVersion: "v1",
  kind: "Node",
  metadata: { name: "n", labels: { zone: "a" } },
};

test.each([
  { name: "no selector", nodeSelector: {}, want: undefined },
  { name: "a label that is there", nodeSelector: { zone: "a" }, want: undefined },
  {
    name: "labels that are not",
    nodeSelector: { zone: "b", rack: "7" },
    want: "node n does not have rack=7, zone=b",
  },
])("$name", ({ nodeSelector, want }) => {
  const pod = aPod();
  expect(selectorProblem({ ...pod, spec: { ...pod.spec, nodeSelector } }, node)).toBe(want);
});
