// SPDX-License-Identifier: Apache-2.0
// Kinds that are only stored, so that users can apply manifests that contain them. Source: Kubernetes API reference.
import { AGE } from "../../table/age.ts";
import type { Kind } from "../kind.ts";
import {
  type StoreOnlyKindOptions,
  TEMPLATE_COLUMNS,
  claimStateColumn,
  column,
  countColumn,
  defineStoreOnlyKind,
  ratioColumn,
  selectorColumn,
} from "./store-only-kind.ts";

const APPS = { group: "apps", version: "v1" };
const BATCH = { group: "batch", version: "v1" };
const CORE = { group: "", version: "v1" };
const NETWORKING = { group: "networking.k8s.io", version: "v1" };
const DEVICES = { group: "resource.k8s.io", version: "v1" };

const CREATE_PODS = "create pods directly";
const WORKLOAD = {
  categories: ["all"],
  hasStatus: true,
  template: ["spec", "template"],
  advice: CREATE_PODS,
};
const ONE_REPLICA = { spec: { replicas: 1 } };
const REPLICA_COLUMNS = [
  countColumn("Desired", "spec", "replicas"),
  countColumn("Current", "status", "replicas"),
  countColumn("Ready", "status", "readyReplicas"),
];

const OPTIONS: readonly StoreOnlyKindOptions[] = [
  {
    ...APPS,
    resource: "controllerrevisions",
    kind: "ControllerRevision",
    columns: [
      column("Controller", ".metadata.ownerReferences[?(@.controller=='true')].name"),
      column("Revision", ".revision", "integer"),
      AGE,
    ],
  },
  {
    ...APPS,
    resource: "daemonsets",
    kind: "DaemonSet",
    shortNames: ["ds"],
    ...WORKLOAD,
    defaults: { spec: { updateStrategy: { type: "RollingUpdate" } } },
    columns: [
      countColumn("Desired", "status", "desiredNumberScheduled"),
      countColumn("Current", "status", "currentNumberScheduled"),
      countColumn("Ready", "status", "numberReady"),
      countColumn("Up-to-date", "status", "updatedNumberScheduled"),
      countColumn("Available", "status", "numberAvailable"),
      AGE,
      ...TEMPLATE_COLUMNS,
    ],
  },
  {
    ...APPS,
    resource: "deployments",
    kind: "Deployment",
    shortNames: ["deploy"],
    ...WORKLOAD,
    isScaled: true,
    defaults: { spec: { replicas: 1, strategy: { type: "RollingUpdate" } } },
    columns: [
      ratioColumn("Ready", "readyReplicas", "replicas"),
      countColumn("Up-to-date", "status", "updatedReplicas"),
      countColumn("Available", "status", "availableReplicas"),
      AGE,
      ...TEMPLATE_COLUMNS,
    ],
  },
  {
    ...APPS,
    resource: "replicasets",
    kind: "ReplicaSet",
    shortNames: ["rs"],
    ...WORKLOAD,
    isScaled: true,
    defaults: ONE_REPLICA,
    columns: [...REPLICA_COLUMNS, AGE, ...TEMPLATE_COLUMNS],
  },
  {
    ...APPS,
    resource: "statefulsets",
    kind: "StatefulSet",
    shortNames: ["sts"],
    ...WORKLOAD,
    isScaled: true,
    defaults: ONE_REPLICA,
    columns: [ratioColumn("Ready", "readyReplicas", "replicas"), AGE, ...TEMPLATE_COLUMNS],
  },
  {
    ...CORE,
    resource: "replicationcontrollers",
    kind: "ReplicationController",
    shortNames: ["rc"],
    ...WORKLOAD,
    isScaled: true,
    defaults: ONE_REPLICA,
    columns: [...REPLICA_COLUMNS, AGE, ...TEMPLATE_COLUMNS.slice(0, 2)],
  },
  {
    ...BATCH,
    resource: "jobs",
    kind: "Job",
    ...WORKLOAD,
    columns: [
      ratioColumn("Completions", "succeeded", "completions"),
      column("Duration", ".status.startTime", "date"),
      AGE,
      ...TEMPLATE_COLUMNS,
    ],
  },
  {
    ...BATCH,
    resource: "cronjobs",
    kind: "CronJob",
    shortNames: ["cj"],
    ...WORKLOAD,
    template: ["spec", "jobTemplate", "spec", "template"],
    columns: [
      column("Schedule", ".spec.schedule"),
      column("Timezone", ".spec.timeZone"),
      column("Suspend", ".spec.suspend", "boolean"),
      column("Last Schedule", ".status.lastScheduleTime", "date"),
      AGE,
    ],
  },
  {
    ...NETWORKING,
    resource: "ingresses",
    kind: "Ingress",
    shortNames: ["ing"],
    hasStatus: true,
    advice:
      "to make a VM reachable from other machines, give it a NIC in a network of this machine",
    columns: [
      column("Class", ".spec.ingressClassName"),
      column("Hosts", ".spec.rules[*].host"),
      column("Address", ".status.loadBalancer.ingress[*].ip"),
      AGE,
    ],
  },
  {
    ...NETWORKING,
    resource: "networkpolicies",
    kind: "NetworkPolicy",
    shortNames: ["netpol"],
    warning:
      "on this machine a NetworkPolicy restricts only the traffic of VMs on the pod network, not that of other pods",
    columns: [selectorColumn("Pod-Selector", "podSelector"), AGE],
  },
  {
    ...DEVICES,
    resource: "resourceclaims",
    kind: "ResourceClaim",
    hasStatus: true,
    columns: [claimStateColumn(), AGE],
  },
  {
    ...DEVICES,
    resource: "resourceclaimtemplates",
    kind: "ResourceClaimTemplate",
    columns: [AGE],
  },
  {
    ...DEVICES,
    namespaced: false,
    resource: "deviceclasses",
    kind: "DeviceClass",
    columns: [AGE],
  },
  {
    ...DEVICES,
    namespaced: false,
    resource: "resourceslices",
    kind: "ResourceSlice",
    columns: [
      column("Node", ".spec.nodeName"),
      column("Driver", ".spec.driver"),
      column("Pool", ".spec.pool.name"),
      AGE,
    ],
  },
  {
    group: "scheduling.k8s.io",
    version: "v1",
    namespaced: false,
    resource: "priorityclasses",
    kind: "PriorityClass",
    shortNames: ["pc"],
    columns: [
      column("Value", ".value", "integer"),
      column("Global-Default", ".globalDefault", "boolean"),
      AGE,
    ],
  },
];

export const STORE_ONLY_KINDS: readonly Kind[] = OPTIONS.map(defineStoreOnlyKind);
