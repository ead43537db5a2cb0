// SPDX-License-Identifier: Apache-2.0
// A kubelet's pod statuses as a cluster's API server stores them. Source: Kubernetes 1.31 with containerd.

const AT = "2026-11-23T10:00:02Z";

function condition(type: string): object {
  return { type, status: "True", lastProbeTime: null, lastTransitionTime: AT };
}

/** A running launcher on a dual-stack node. */
export function runningStatus(podIps: readonly string[]): object {
  const [podIP] = podIps;
  return {
    phase: "Running",
    conditions: [
      "PodReadyToStartContainers",
      "Initialized",
      "Ready",
      "ContainersReady",
      "PodScheduled",
    ].map(condition),
    hostIP: "172.18.0.2",
    hostIPs: [{ ip: "172.18.0.2" }, { ip: "fc00:f853:ccd:e793::2" }],
    podIP,
    podIPs: podIps.map((ip) => ({ ip })),
    startTime: AT,
    qosClass: "Burstable",
    containerStatuses: [
      {
        name: "compute",
        state: { running: { startedAt: AT } },
        lastState: {},
        ready: true,
        started: true,
        restartCount: 0,
        image: "localhost/patchbay/virt-launcher:dev",
        imageID: `sha256:${"1".repeat(64)}`,
        containerID: `containerd://${"2".repeat(64)}`,
      },
    ],
  };
}

/** A launcher for which the device plugin had no device; it never gets addresses or containers. */
export const REFUSED_STATUS = {
  phase: "Failed",
  reason: "UnexpectedAdmissionError",
  message:
    "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices " +
    "devices.kubevirt.io/tun, which is unexpected",
  startTime: AT,
};
