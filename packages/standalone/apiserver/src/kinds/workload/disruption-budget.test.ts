// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { KubeObject } from "../../objects/object.ts";
import { countDisruptions } from "./disruption-budget.ts";

function pod(ready: boolean, change: object = {}): KubeObject {
  const conditions = [{ type: "Ready", status: ready ? "True" : "False" }];
  const metadata = { name: "p", labels: { app: "a" } };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata,
    status: { phase: "Running", conditions },
    ...change,
  };
}

const FINISHED = pod(false, { status: { phase: "Succeeded" } });
const OTHER = pod(true, { metadata: { name: "o", labels: { app: "b" } } });
const LEAVING = pod(true, {
  metadata: { name: "l", labels: { app: "a" }, deletionTimestamp: "2026-01-01T00:00:00Z" },
});

test.each([
  {
    what: "one available pod of one",
    spec: { minAvailable: 1 },
    pods: [pod(true)],
    want: [1, 1, 1, 0],
  },
  {
    what: "one of two",
    spec: { minAvailable: 1 },
    pods: [pod(true), pod(true)],
    want: [2, 2, 1, 1],
  },
  {
    what: "half of the pods, rounded up",
    spec: { minAvailable: "50%" },
    pods: [pod(true), pod(true), pod(true)],
    want: [3, 3, 2, 1],
  },
  {
    what: "one pod that may be unavailable",
    spec: { maxUnavailable: 1 },
    pods: [pod(true), pod(true)],
    want: [2, 2, 1, 1],
  },
  {
    what: "one pod that is already unavailable",
    spec: { maxUnavailable: 1 },
    pods: [pod(true), pod(false)],
    want: [2, 1, 1, 0],
  },
  {
    what: "one pod that is being deleted",
    spec: { maxUnavailable: 1 },
    pods: [pod(true), LEAVING],
    want: [2, 1, 1, 0],
  },
  {
    what: "all may be away",
    spec: { maxUnavailable: "100%" },
    pods: [pod(true)],
    want: [1, 1, 0, 1],
  },
  {
    what: "no finished and no unrelated pods",
    spec: { minAvailable: 1 },
    pods: [FINISHED, OTHER],
    want: [0, 0, 1, 0],
  },
  {
    what: "all pods as required if no limit is set",
    spec: {},
    pods: [pod(true), pod(true)],
    want: [2, 2, 2, 0],
  },
  {
    what: "all pods as required if the limit is not a number",
    spec: { minAvailable: "x" },
    pods: [pod(true)],
    want: [1, 1, 1, 0],
  },
  {
    what: "a maxUnavailable above the number of pods",
    spec: { maxUnavailable: 5 },
    pods: [pod(true)],
    want: [1, 1, 0, 1],
  },
  {
    what: "a pod without labels",
    spec: { minAvailable: 0 },
    pods: [pod(true, { metadata: { name: "p" } })],
    want: [0, 0, 0, 0],
  },
  {
    what: "a pod that has failed",
    spec: { minAvailable: 0 },
    pods: [pod(true, { status: { phase: "Failed" } })],
    want: [0, 0, 0, 0],
  },
  {
    what: "a pod without the Ready condition as unavailable",
    spec: { minAvailable: 0 },
    pods: [pod(true, { status: { conditions: [{ type: "Initialized", status: "True" }] } })],
    want: [1, 0, 0, 0],
  },
  {
    what: "a minAvailable above the number of pods",
    spec: { minAvailable: 5 },
    pods: [pod(true)],
    want: [1, 1, 5, 0],
  },
])("a budget counts: $what", ({ spec, pods, want }) => {
  const selector = { matchLabels: { app: "a" } };
  const budget = {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { name: "b" },
    spec: { ...spec, selector },
  };
  const { expectedPods, currentHealthy, desiredHealthy, disruptionsAllowed } = countDisruptions(
    budget,
    pods,
  );
  expect([expectedPods, currentHealthy, desiredHealthy, disruptionsAllowed]).toEqual(want);
});

test("a budget without a selector has no pods", () => {
  const budget = {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { name: "b" },
    spec: { minAvailable: 1 },
  };
  expect(countDisruptions(budget, [pod(true)])).toMatchObject({ expectedPods: 0 });
});
