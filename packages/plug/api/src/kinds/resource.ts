// SPDX-License-Identifier: Apache-2.0
// Which kinds exist and how they are addressed.
import type {
  ConfigMap,
  Secret,
  ApiService,
  KubeEvent,
  KubeNode,
  Lease,
  Namespace,
  WebhookConfiguration,
  ControllerRevision,
  DaemonSet,
  Deployment,
} from "./kubernetes/core-kinds.ts";
import type { Instancetype, Preference } from "./instancetype.ts";
import type { KubeVirt } from "./kubevirt-config.ts";
import type { DataVolume } from "./guest/disks.ts";
import type { KubeObject } from "./kubernetes/meta.ts";
import type { VirtualMachineInstanceMigration, MigrationPolicy } from "./migration.ts";
import type { NetworkAttachmentDefinition } from "./nad.ts";
import type { Endpoints, EndpointSlice, Service } from "./kubernetes/service.ts";
import { INSTANCETYPE_GROUP, KUBEVIRT_GROUP, MIGRATIONS_GROUP, NAD_GROUP } from "../names.ts";
import type { Pod } from "./kubernetes/pod.ts";
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "./kubernetes/storage.ts";
import type { VirtualMachine } from "./vm.ts";
import type { VirtualMachineInstance } from "./vmi.ts";

/** How a kind is addressed over HTTP; `T` is the type of its objects. */
export interface ResourceType<T extends KubeObject> {
  /** API group; empty for the core group. */
  readonly group: string;
  readonly version: string;
  /** Plural name in paths. */
  readonly resource: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Carries `T`; never set. */
  readonly objectType?: T;
}

/** Launcher pods, and any other. */
export const PODS: ResourceType<Pod> = {
  group: "",
  version: "v1",
  resource: "pods",
  kind: "Pod",
  namespaced: true,
};
/** Names and addresses for what stands behind them. */
export const SERVICES: ResourceType<Service> = {
  group: "",
  version: "v1",
  resource: "services",
  kind: "Service",
  namespaced: true,
};
/** What stands behind Services. */
export const ENDPOINT_SLICES: ResourceType<EndpointSlice> = {
  group: "discovery.k8s.io",
  version: "v1",
  resource: "endpointslices",
  kind: "EndpointSlice",
  namespaced: true,
};
/** The same in the older form. */
export const ENDPOINTS: ResourceType<Endpoints> = {
  group: "",
  version: "v1",
  resource: "endpoints",
  kind: "Endpoints",
  namespaced: true,
};
/** Where pods run; standalone has one. */
export const NODES: ResourceType<KubeNode> = {
  group: "",
  version: "v1",
  resource: "nodes",
  kind: "Node",
  namespaced: false,
};
/** Rooms for names and rights; a VM, its pod and mostly its networks share one. */
export const NAMESPACES: ResourceType<Namespace> = {
  group: "",
  version: "v1",
  resource: "namespaces",
  kind: "Namespace",
  namespaced: false,
};
/** Configuration that pods read. */
export const CONFIG_MAPS: ResourceType<ConfigMap> = {
  group: "",
  version: "v1",
  resource: "configmaps",
  kind: "ConfigMap",
  namespaced: true,
};
/** Configuration that not everybody may read. */
export const SECRETS: ResourceType<Secret> = {
  group: "",
  version: "v1",
  resource: "secrets",
  kind: "Secret",
  namespaced: true,
};
/** Storage that users ask for. */
export const PERSISTENT_VOLUME_CLAIMS: ResourceType<PersistentVolumeClaim> = {
  group: "",
  version: "v1",
  resource: "persistentvolumeclaims",
  kind: "PersistentVolumeClaim",
  namespaced: true,
};
/** Claims with what fills them; served where CDI is. */
export const DATA_VOLUMES: ResourceType<DataVolume> = {
  group: "cdi.kubevirt.io",
  version: "v1beta1",
  resource: "datavolumes",
  kind: "DataVolume",
  namespaced: true,
};
/** Where DataVolumes are copied from, by name; served where CDI is. */
export const DATA_SOURCES: ResourceType<KubeObject> = {
  ...DATA_VOLUMES,
  resource: "datasources",
  kind: "DataSource",
};
/** Storage that is there. */
export const PERSISTENT_VOLUMES: ResourceType<PersistentVolume> = {
  group: "",
  version: "v1",
  resource: "persistentvolumes",
  kind: "PersistentVolume",
  namespaced: false,
};
/** Who makes storage for those who ask. */
export const STORAGE_CLASSES: ResourceType<StorageClass> = {
  group: "storage.k8s.io",
  version: "v1",
  resource: "storageclasses",
  kind: "StorageClass",
  namespaced: false,
};
/** What happened to an object, in words for people. */
export const EVENTS: ResourceType<KubeEvent> = {
  group: "",
  version: "v1",
  resource: "events",
  kind: "Event",
  namespaced: true,
};
/** Pods of which some are always there. */
export const DEPLOYMENTS: ResourceType<Deployment> = {
  group: "apps",
  version: "v1",
  resource: "deployments",
  kind: "Deployment",
  namespaced: true,
};
/** Pods of which each node has one. */
export const DAEMON_SETS: ResourceType<DaemonSet> = {
  group: "apps",
  version: "v1",
  resource: "daemonsets",
  kind: "DaemonSet",
  namespaced: true,
};
/** Who is alive: node-runtime renews the node's. */
export const LEASES: ResourceType<Lease> = {
  group: "coordination.k8s.io",
  version: "v1",
  resource: "leases",
  kind: "Lease",
  namespaced: true,
};
/** Who answers for an API group and version. */
export const API_SERVICES: ResourceType<ApiService> = {
  group: "apiregistration.k8s.io",
  version: "v1",
  resource: "apiservices",
  kind: "APIService",
  namespaced: false,
};
/** Whom the API server asks to change what is written. */
export const MUTATING_WEBHOOKS: ResourceType<WebhookConfiguration> = {
  group: "admissionregistration.k8s.io",
  version: "v1",
  resource: "mutatingwebhookconfigurations",
  kind: "MutatingWebhookConfiguration",
  namespaced: false,
};
/** Whom the API server asks whether something may be written. */
export const VALIDATING_WEBHOOKS: ResourceType<WebhookConfiguration> = {
  group: "admissionregistration.k8s.io",
  version: "v1",
  resource: "validatingwebhookconfigurations",
  kind: "ValidatingWebhookConfiguration",
  namespaced: false,
};
/** What a user declares; it lasts over starts. */
export const VIRTUAL_MACHINES: ResourceType<VirtualMachine> = {
  group: KUBEVIRT_GROUP,
  version: "v1",
  resource: "virtualmachines",
  kind: "VirtualMachine",
  namespaced: true,
};
/** Guests that are to go to another node. */
export const VIRTUAL_MACHINE_INSTANCE_MIGRATIONS: ResourceType<VirtualMachineInstanceMigration> = {
  group: KUBEVIRT_GROUP,
  version: "v1",
  resource: "virtualmachineinstancemigrations",
  kind: "VirtualMachineInstanceMigration",
  namespaced: true,
};
/** Other settings for some of them. */
export const MIGRATION_POLICIES: ResourceType<MigrationPolicy> = {
  group: MIGRATIONS_GROUP,
  version: "v1alpha1",
  resource: "migrationpolicies",
  kind: "MigrationPolicy",
  namespaced: false,
};
/** One start of a VM. */
export const VIRTUAL_MACHINE_INSTANCES: ResourceType<VirtualMachineInstance> = {
  group: KUBEVIRT_GROUP,
  version: "v1",
  resource: "virtualmachineinstances",
  kind: "VirtualMachineInstance",
  namespaced: true,
};
/** How large a VM is, by name. */
export const INSTANCETYPES: ResourceType<Instancetype> = {
  group: INSTANCETYPE_GROUP,
  version: "v1beta1",
  resource: "virtualmachineinstancetypes",
  kind: "VirtualMachineInstancetype",
  namespaced: true,
};
/** The same for VMs of all namespaces. */
export const CLUSTER_INSTANCETYPES: ResourceType<Instancetype> = {
  ...INSTANCETYPES,
  resource: "virtualmachineclusterinstancetypes",
  kind: "VirtualMachineClusterInstancetype",
  namespaced: false,
};
/** What suits a guest, by name. */
export const PREFERENCES: ResourceType<Preference> = {
  group: INSTANCETYPE_GROUP,
  version: "v1beta1",
  resource: "virtualmachinepreferences",
  kind: "VirtualMachinePreference",
  namespaced: true,
};
/** The same for VMs of all namespaces. */
export const CLUSTER_PREFERENCES: ResourceType<Preference> = {
  ...PREFERENCES,
  resource: "virtualmachineclusterpreferences",
  kind: "VirtualMachineClusterPreference",
  namespaced: false,
};
/** What an instancetype or a preference was when a VM first used it. */
export const CONTROLLER_REVISIONS: ResourceType<ControllerRevision> = {
  group: "apps",
  version: "v1",
  resource: "controllerrevisions",
  kind: "ControllerRevision",
  namespaced: true,
};
/** The cluster's configuration. */
export const KUBEVIRTS: ResourceType<KubeVirt> = {
  group: KUBEVIRT_GROUP,
  version: "v1",
  resource: "kubevirts",
  kind: "KubeVirt",
  namespaced: true,
};
/** Networks that pods, and so guests, can join. */
export const NETWORK_ATTACHMENT_DEFINITIONS: ResourceType<NetworkAttachmentDefinition> = {
  group: NAD_GROUP,
  version: "v1",
  resource: "network-attachment-definitions",
  kind: "NetworkAttachmentDefinition",
  namespaced: true,
};

/** `apiVersion` of a kind, for example `kubevirt.io/v1`. */
export function apiVersionOf(type: ResourceType<KubeObject>): string {
  return type.group === "" ? type.version : `${type.group}/${type.version}`;
}

const REFUSALS: Readonly<Record<string, string>> = {
  VirtualMachineInstanceReplicaSet:
    "Patchbay does not run VirtualMachineInstanceReplicaSets: nothing would make their guests. Write a VirtualMachine for each guest instead; with an instancetype and a preference each is a few lines",
  VirtualMachinePool:
    "Patchbay does not run VirtualMachinePools: nothing would make their VMs. Write a VirtualMachine for each of them instead; with an instancetype and a preference each is a few lines",
  VirtualMachineExport:
    "Patchbay does not have exports of VMs: nothing would offer the disks for download. Stop the VM, mount its claim into a pod and copy the disk from there (kubectl cp)",
};

/** Why nobody can make an object of that kind; undefined for one that is not refused. */
export function refusalOf(kind: string): string | undefined {
  return Object.hasOwn(REFUSALS, kind) ? REFUSALS[kind] : undefined;
}
