// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod } from "@patchbay/api/kubernetes";
import type { ContainerImage } from "@patchbay/core/interfaces";
import type { ContainerFacts, PodFacts, SandboxFacts } from "../pods/facts.ts";
import { findPolicyViolation } from "../pods/observe.ts";
import type { NodeFacts } from "../translate/node-facts.ts";

export const UID = "0f1e2d3c";

/** An image that runs as user 107. */
export const IMAGE: ContainerImage = {
  id: "sha256:1",
  tags: ["localhost/launcher:dev"],
  digests: [],
  bytes: 1,
  uid: 107,
  username: "",
};

export const NODE: NodeFacts = {
  name: "node-1",
  hostIp: "192.0.2.1",
  podsDir: "/p",
  logDir: "/logs",
  cgroupParent: "/patchbay",
  memoryBytes: 4 * 2 ** 30,
};

export function aContainer(change: Partial<Container> = {}): Container {
  return { name: "compute", image: "localhost/launcher:dev", ...change };
}

/** Returns a pod with one container that never restarts. */
export function aPod(
  spec: Partial<Pod["spec"]> = {},
  metadata: Partial<Pod["metadata"]> = {},
): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "a", namespace: "ns", uid: UID, resourceVersion: "1", ...metadata },
    spec: {
      nodeName: "node-1",
      restartPolicy: "Never",
      securityContext: { runAsUser: 107, runAsGroup: 107, fsGroup: 107, runAsNonRoot: true },
      containers: [aContainer()],
      ...spec,
    },
  };
}

export function aSandbox(change: Partial<SandboxFacts> = {}): SandboxFacts {
  return {
    id: "s0",
    metadata: { name: "a", namespace: "ns", uid: UID, attempt: 0 },
    state: "READY",
    createdAt: 1n,
    labels: {},
    annotations: {},
    ips: ["10.0.0.2"],
    ...change,
  };
}

/** Returns a running container of {@link aSandbox}. */
export function aRun(change: Partial<ContainerFacts> = {}): ContainerFacts {
  return {
    id: "c0",
    sandboxId: "s0",
    name: "compute",
    attempt: 0,
    state: "RUNNING",
    createdAt: 1n,
    image: IMAGE.id,
    imageRef: IMAGE.id,
    labels: {},
    annotations: {},
    startedAt: 1_000_000_000n,
    finishedAt: 0n,
    exitCode: 0,
    reason: "",
    message: "",
    logPath: "/logs/0.log",
    ...change,
  };
}

/** Returns facts of {@link aPod} before its start, when only its image exists. */
export function podFacts(change: Partial<PodFacts> = {}): PodFacts {
  const pod = "pod" in change ? change.pod : aPod();
  return {
    uid: UID,
    pod,
    sandboxes: [],
    containers: [],
    hasLeftovers: false,
    images: new Map([["localhost/launcher:dev", { kind: "present", image: IMAGE }]]),
    pausedSteps: new Map(),
    releasedSandboxIds: new Set(),
    health: new Map(),
    rejection: pod && findPolicyViolation(pod),
    ...change,
  };
}
