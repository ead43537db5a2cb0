// SPDX-License-Identifier: Apache-2.0
// Waiting for the rollout of an installation.
import { DAEMON_SETS, DEPLOYMENTS, names, PODS } from "@patchbay/api";
import type { DaemonSet, Deployment, Pod } from "@patchbay/api/kubernetes";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import { judgeRollout } from "../../doctor/checks/components.ts";
import { waitForRollout } from "./install.ts";

const metadata = { namespace: names.SERVICES_NAMESPACE, generation: 2 };

function deploymentOf(ready: number, updated: number, observedGeneration = 2): Deployment {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { ...metadata, name: "virt-api" },
    spec: { replicas: 2 },
    status: { observedGeneration, readyReplicas: ready, updatedReplicas: updated },
  };
}

/** During a rollout with maxSurge 1. */
function surge(ready: number, updated: number, replicas: number): Deployment {
  const deployment = deploymentOf(ready, updated);
  return { ...deployment, status: { ...deployment.status, replicas } };
}

function daemonSetOf(wanted: number, ready: number): DaemonSet {
  return {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { ...metadata, name: "net-agent" },
    status: {
      observedGeneration: 2,
      desiredNumberScheduled: wanted,
      numberReady: ready,
      updatedNumberScheduled: wanted,
    },
  };
}

function podOf(reason: string, message?: string): Pod {
  const waiting = { reason, ...(message !== undefined && { message }) };
  const status = { name: "c", image: "i", imageID: "", ready: false, restartCount: 0 };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: names.SERVICES_NAMESPACE, name: "virt-api-1" },
    spec: { containers: [] },
    status: { containerStatuses: [{ ...status, state: { waiting } }] },
  };
}

test.each<{
  name: string;
  deployment: Deployment;
  agents: DaemonSet;
  pods?: readonly Pod[];
  pending: readonly string[];
}>([
  {
    name: "all pods are ready",
    deployment: deploymentOf(2, 2),
    agents: daemonSetOf(3, 3),
    pending: [],
  },
  {
    name: "a pod is not ready",
    deployment: deploymentOf(1, 2),
    agents: daemonSetOf(3, 3),
    pending: ["Deployment virt-api: 1 of 2 pods are ready"],
  },
  {
    name: "pods are of the previous version",
    deployment: deploymentOf(2, 1),
    agents: daemonSetOf(3, 3),
    pending: ["Deployment virt-api: 1 of 2 pods are ready"],
  },
  {
    name: "a new pod and one of the previous version are ready, and another new pod fails",
    deployment: surge(2, 2, 3),
    agents: daemonSetOf(3, 3),
    pending: ["Deployment virt-api: 1 of 2 pods are ready; 1 of an older version remain"],
  },
  {
    name: "all new pods are ready, and one of the previous version remains",
    deployment: surge(3, 2, 3),
    agents: daemonSetOf(3, 3),
    pending: ["Deployment virt-api: 2 of 2 pods are ready; 1 of an older version remain"],
  },
  {
    name: "all pods of the previous version are removed",
    deployment: surge(2, 2, 2),
    agents: daemonSetOf(3, 3),
    pending: [],
  },
  {
    name: "the status is of the previous specification",
    deployment: deploymentOf(2, 2, 1),
    agents: daemonSetOf(3, 3),
    pending: ["Deployment virt-api: 0 of 2 pods are ready"],
  },
  {
    name: "a pod cannot start",
    deployment: deploymentOf(2, 2),
    agents: daemonSetOf(2, 0),
    pods: [podOf("ImagePullBackOff", "no such image"), podOf("ContainerCreating")],
    pending: [
      "DaemonSet net-agent: 0 of 2 pods are ready",
      "pod virt-api-1: ImagePullBackOff: no such image",
    ],
  },
  {
    name: "a pod of the previous version cannot start",
    deployment: deploymentOf(2, 2),
    agents: daemonSetOf(2, 2),
    pods: [podOf("CrashLoopBackOff")],
    pending: [],
  },
])("$name", ({ deployment, agents, pods = [], pending }) => {
  const rollout = judgeRollout({ deployments: [deployment], daemonSets: [agents], pods });
  expect(rollout.pending).toEqual(pending);
});

/** Runs the wait. Each sleep puts the next state into the store. */
async function wait(store: FakeStore, states: readonly (() => void)[], timeoutMs: number) {
  let nowMs = 0;
  let lines = "";
  const remaining = [...states];
  const clock = {
    now: () => nowMs,
    monotonicMs: () => nowMs,
    sleep: (ms: number) => {
      nowMs += ms;
      remaining.shift()?.();
      return Promise.resolve();
    },
  };
  const err = { write: (text: string) => (lines += text) };
  const { signal } = new AbortController();
  const ended = waitForRollout({ err, signal }, { clock, client: { store } }, timeoutMs);
  const error = await ended.then(
    () => undefined,
    (reason: unknown) => (reason as Error).message,
  );
  return { error, lines: lines.trim().split("\n") };
}

test("prints each change once, and ends when all pods are ready", async () => {
  const store = createFakeStore();
  store.put(DEPLOYMENTS, deploymentOf(0, 0));
  store.put(DAEMON_SETS, daemonSetOf(1, 1));
  const states = [
    () => undefined,
    () => {
      store.put(DEPLOYMENTS, deploymentOf(1, 2));
    },
    () => {
      store.put(DEPLOYMENTS, deploymentOf(2, 2));
    },
  ];
  expect(await wait(store, states, 60_000)).toEqual({
    error: undefined,
    lines: [
      "Deployment virt-api: 0 of 2 pods are ready",
      "DaemonSet net-agent: 1 of 1 pods are ready",
      "Deployment virt-api: 1 of 2 pods are ready",
      "Deployment virt-api: 2 of 2 pods are ready",
    ],
  });
});

test("fails at the deadline with the workloads and pods that are not ready", async () => {
  const store = createFakeStore();
  store.put(DEPLOYMENTS, deploymentOf(2, 2));
  store.put(DAEMON_SETS, daemonSetOf(1, 0));
  store.put(PODS, podOf("ErrImagePull"));
  const { error } = await wait(store, [], 10_000);
  expect(error).toBe(
    "everything is installed, but not ready after 10 s: DaemonSet net-agent: 0 of 1 pods are ready; pod virt-api-1: ErrImagePull",
  );
});
