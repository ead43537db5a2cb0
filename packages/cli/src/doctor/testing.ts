// SPDX-License-Identifier: Apache-2.0
// Facts of an installation without faults, for tests.
import { names } from "@patchbay/api";
import type { KubeNode, Lease } from "@patchbay/api/kubernetes";
import { parseTime } from "@patchbay/kube";
import type { Facts, Trial } from "./facts.ts";

const NOW = "2026-01-01T00:00:00.000Z";

function nodeOf(): KubeNode {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "n1" },
    status: {
      conditions: [{ type: "Ready", status: "True" }],
      allocatable: { [names.TUN_RESOURCE]: "110", [names.KVM_RESOURCE]: "110" },
      nodeInfo: {
        machineID: "",
        systemUUID: "",
        bootID: "",
        osImage: "Debian",
        kubeletVersion: "v1.30.0",
        kubeProxyVersion: "",
        operatingSystem: "linux",
        architecture: "amd64",
        kernelVersion: "6.1.0-32-amd64",
        containerRuntimeVersion: "containerd://1.6.20",
      },
    },
  };
}

function leaseOf(name: string, holderIdentity: string): Lease {
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name },
    spec: { holderIdentity, renewTime: NOW, leaseDurationSeconds: 4 },
  };
}

export function trialWith(fields: Partial<Trial>): { readonly value: Trial } {
  const now = parseTime(NOW);
  const healthy = {
    serverMs: now,
    sentMs: now,
    receivedMs: now,
    hasDefaults: true,
    isRefused: true,
  };
  return { value: { ...healthy, ...fields } };
}

export function healthyFacts(): Facts {
  return {
    nowMs: parseTime(NOW),
    serverVersion: { value: "v1.30.0" },
    apis: [{ groupVersion: "kubevirt.io/v1", resources: ["a"], served: { value: ["a"] } }],
    trial: trialWith({}),
    apiServices: {
      value: [
        {
          apiVersion: "apiregistration.k8s.io/v1",
          kind: "APIService",
          metadata: { name: "v1.subresources.kubevirt.io" },
          spec: { group: "subresources.kubevirt.io", version: "v1" },
          status: { conditions: [{ type: "Available", status: "True" }] },
        },
      ],
    },
    webhooks: { value: [] },
    certificates: [{ subject: "authority of virt-api", endsMs: parseTime("2036-01-01T00:00:00Z") }],
    deployments: {
      value: [
        {
          apiVersion: "apps/v1",
          kind: "Deployment",
          metadata: { name: "virt-api" },
          spec: { replicas: 2 },
          status: { readyReplicas: 2, updatedReplicas: 2 },
        },
      ],
    },
    daemonSets: {
      value: ["net-agent", "virt-handler"].map((name) => ({
        apiVersion: "apps/v1",
        kind: "DaemonSet",
        metadata: { name },
        status: { desiredNumberScheduled: 1, numberReady: 1, updatedNumberScheduled: 1 },
      })),
    },
    leader: { value: leaseOf("virt-controller", "virt-controller-1") },
    nodes: { value: [nodeOf()] },
    nodeLeases: { value: [leaseOf("n1", "n1")] },
    useEmulation: false,
    offersDataplane: false,
    unlimitedTenants: { value: [] },
    networks: { value: [] },
    networkEvents: { value: [] },
    vmis: { value: [] },
    pods: { value: [] },
  };
}
