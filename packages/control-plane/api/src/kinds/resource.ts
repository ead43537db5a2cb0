// SPDX-License-Identifier: Apache-2.0
// REST resources of the kinds that Patchbay uses, and the kinds of KubeVirt that virt-api rejects.
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
import type { NetworkPolicy } from "./kubernetes/network-policy.ts";
import type { Instancetype, Preference } from "./instancetype.ts";
import type { KubeVirt } from "./kubevirt-config.ts";
import type { DataVolume } from "./guest/disks.ts";
import type { KubeObject } from "./kubernetes/meta.ts";
import type { VirtualMachineInstanceMigration, MigrationPolicy } from "./migration.ts";
import type { IpamClaim, NetworkAttachmentDefinition } from "./nad.ts";
import type { Endpoints, EndpointSlice, Service } from "./kubernetes/service.ts";
import { INSTANCETYPE_GROUP, KUBEVIRT_GROUP, MIGRATIONS_GROUP, NAD_GROUP } from "../names.ts";
import type { Pod } from "./kubernetes/pod.ts";
import type { ResourceClaim, ResourceClaimTemplate } from "./kubernetes/resource-claim.ts";
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "./kubernetes/storage.ts";
import type { VirtualMachine } from "./vm.ts";
import type { VirtualMachineInstance } from "./vmi.ts";

/** REST resource of a kind. `T` is the type of its objects. */
export interface ResourceType<T extends KubeObject> {
  /** API group; empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Never set. TypeScript infers `T` from this member. */
  readonly objectType?: T;
}

export const PODS: ResourceType<Pod> = {
  group: "",
  version: "v1",
  resource: "pods",
  kind: "Pod",
  namespaced: true,
};
export const SERVICES: ResourceType<Service> = {
  group: "",
  version: "v1",
  resource: "services",
  kind: "Service",
  namespaced: true,
};
export const ENDPOINT_SLICES: ResourceType<EndpointSlice> = {
  group: "discovery.k8s.io",
  version: "v1",
  resource: "endpointslices",
  kind: "EndpointSlice",
  namespaced: true,
};
export const ENDPOINTS: ResourceType<Endpoints> = {
  group: "",
  version: "v1",
  resource: "endpoints",
  kind: "Endpoints",
  namespaced: true,
};
export const NODES: ResourceType<KubeNode> = {
  group: "",
  version: "v1",
  resource: "nodes",
  kind: "Node",
  namespaced: false,
};
export const NAMESPACES: ResourceType<Namespace> = {
  group: "",
  version: "v1",
  resource: "namespaces",
  kind: "Namespace",
  namespaced: false,
};
export const NETWORK_POLICIES: ResourceType<NetworkPolicy> = {
  group: "networking.k8s.io",
  version: "v1",
  resource: "networkpolicies",
  kind: "NetworkPolicy",
  namespaced: true,
};
export const CONFIG_MAPS: ResourceType<ConfigMap> = {
  group: "",
  version: "v1",
  resource: "configmaps",
  kind: "ConfigMap",
  namespaced: true,
};
export const SECRETS: ResourceType<Secret> = {
  group: "",
  version: "v1",
  resource: "secrets",
  kind: "Secret",
  namespaced: true,
};
export const PERSISTENT_VOLUME_CLAIMS: ResourceType<PersistentVolumeClaim> = {
  group: "",
  version: "v1",
  resource: "persistentvolumeclaims",
  kind: "PersistentVolumeClaim",
  namespaced: true,
};
export const DATA_VOLUMES: ResourceType<DataVolume> = {
  group: "cdi.kubevirt.io",
  version: "v1beta1",
  resource: "datavolumes",
  kind: "DataVolume",
  namespaced: true,
};
export const DATA_SOURCES: ResourceType<KubeObject> = {
  ...DATA_VOLUMES,
  resource: "datasources",
  kind: "DataSource",
};
export const PERSISTENT_VOLUMES: ResourceType<PersistentVolume> = {
  group: "",
  version: "v1",
  resource: "persistentvolumes",
  kind: "PersistentVolume",
  namespaced: false,
};
export const STORAGE_CLASSES: ResourceType<StorageClass> = {
  group: "storage.k8s.io",
  version: "v1",
  resource: "storageclasses",
  kind: "StorageClass",
  namespaced: false,
};
export const RESOURCE_CLAIMS: ResourceType<ResourceClaim> = {
  group: "resource.k8s.io",
  version: "v1",
  resource: "resourceclaims",
  kind: "ResourceClaim",
  namespaced: true,
};
export const RESOURCE_CLAIM_TEMPLATES: ResourceType<ResourceClaimTemplate> = {
  group: "resource.k8s.io",
  version: "v1",
  resource: "resourceclaimtemplates",
  kind: "ResourceClaimTemplate",
  namespaced: true,
};
export const EVENTS: ResourceType<KubeEvent> = {
  group: "",
  version: "v1",
  resource: "events",
  kind: "Event",
  namespaced: true,
};
export const DEPLOYMENTS: ResourceType<Deployment> = {
  group: "apps",
  version: "v1",
  resource: "deployments",
  kind: "Deployment",
  namespaced: true,
};
export const DAEMON_SETS: ResourceType<DaemonSet> = {
  group: "apps",
  version: "v1",
  resource: "daemonsets",
  kind: "DaemonSet",
  namespaced: true,
};
export const LEASES: ResourceType<Lease> = {
  group: "coordination.k8s.io",
  version: "v1",
  resource: "leases",
  kind: "Lease",
  namespaced: true,
};
export const API_SERVICES: ResourceType<ApiService> = {
  group: "apiregistration.k8s.io",
  version: "v1",
  resource: "apiservices",
  kind: "APIService",
  namespaced: false,
};
export const MUTATING_WEBHOOKS: ResourceType<WebhookConfiguration> = {
  group: "admissionregistration.k8s.io",
  version: "v1",
  resource: "mutatingwebhookconfigurations",
  kind: "MutatingWebhookConfiguration",
  namespaced: false,
};
export const VALIDATING_WEBHOOKS: ResourceType<WebhookConfiguration> = {
  group: "admissionregistration.k8s.io",
  version: "v1",
  resource: "validatingwebhookconfigurations",
  kind: "ValidatingWebhookConfiguration",
  namespaced: false,
};
export const VIRTUAL_MACHINES: ResourceType<VirtualMachine> = {
  group: KUBEVIRT_GROUP,
  version: "v1",
  resource: "virtualmachines",
  kind: "VirtualMachine",
  namespaced: true,
};
export const VIRTUAL_MACHINE_INSTANCE_MIGRATIONS: ResourceType<VirtualMachineInstanceMigration> = {
  group: KUBEVIRT_GROUP,
  version: "v1",
  resource: "virtualmachineinstancemigrations",
  kind: "VirtualMachineInstanceMigration",
  namespaced: true,
};
export const MIGRATION_POLICIES: ResourceType<MigrationPolicy> = {
  group: MIGRATIONS_GROUP,
  version: "v1alpha1",
  resource: "migrationpolicies",
  kind: "MigrationPolicy",
  namespaced: false,
};
export const VIRTUAL_MACHINE_INSTANCES: ResourceType<VirtualMachineInstance> = {
  group: KUBEVIRT_GROUP,
  version: "v1",
  resource: "virtualmachineinstances",
  kind: "VirtualMachineInstance",
  namespaced: true,
};
export const INSTANCETYPES: ResourceType<Instancetype> = {
  group: INSTANCETYPE_GROUP,
  version: "v1beta1",
  resource: "virtualmachineinstancetypes",
  kind: "VirtualMachineInstancetype",
  namespaced: true,
};
export const CLUSTER_INSTANCETYPES: ResourceType<Instancetype> = {
  ...INSTANCETYPES,
  resource: "virtualmachineclusterinstancetypes",
  kind: "VirtualMachineClusterInstancetype",
  namespaced: false,
};
export const PREFERENCES: ResourceType<Preference> = {
  group: INSTANCETYPE_GROUP,
  version: "v1beta1",
  resource: "virtualmachinepreferences",
  kind: "VirtualMachinePreference",
  namespaced: true,
};
export const CLUSTER_PREFERENCES: ResourceType<Preference> = {
  ...PREFERENCES,
  resource: "virtualmachineclusterpreferences",
  kind: "VirtualMachineClusterPreference",
  namespaced: false,
};
/** Snapshots of instancetypes and preferences. virt-controller creates a VM's snapshots when the VM first uses the originals. */
export const CONTROLLER_REVISIONS: ResourceType<ControllerRevision> = {
  group: "apps",
  version: "v1",
  resource: "controllerrevisions",
  kind: "ControllerRevision",
  namespaced: true,
};
export const KUBEVIRTS: ResourceType<KubeVirt> = {
  group: KUBEVIRT_GROUP,
  version: "v1",
  resource: "kubevirts",
  kind: "KubeVirt",
  namespaced: true,
};
export const NETWORK_ATTACHMENT_DEFINITIONS: ResourceType<NetworkAttachmentDefinition> = {
  group: NAD_GROUP,
  version: "v1",
  resource: "network-attachment-definitions",
  kind: "NetworkAttachmentDefinition",
  namespaced: true,
};

export const IPAM_CLAIMS: ResourceType<IpamClaim> = {
  group: NAD_GROUP,
  version: "v1alpha1",
  resource: "ipamclaims",
  kind: "IPAMClaim",
  namespaced: true,
};

/** Policies for the networks in the annotation `policy-for`. The other fields are those of a NetworkPolicy. */
export const MULTI_NETWORK_POLICIES: ResourceType<NetworkPolicy> = {
  group: NAD_GROUP,
  version: "v1beta1",
  resource: "multi-networkpolicies",
  kind: "MultiNetworkPolicy",
  namespaced: true,
};

/** Returns group and version, for example `kubevirt.io/v1`. */
export function apiVersionOf(type: ResourceType<KubeObject>): string {
  return type.group === "" ? type.version : `${type.group}/${type.version}`;
}

const REJECTION_REASONS: Readonly<Record<string, string>> = {
  VirtualMachineInstanceReplicaSet:
    "Patchbay does not run VirtualMachineInstanceReplicaSets: nothing would make their guests. Write a VirtualMachine for each guest instead; with an instancetype and a preference each is a few lines",
  VirtualMachinePool:
    "Patchbay does not run VirtualMachinePools: nothing would make their VMs. Write a VirtualMachine for each of them instead; with an instancetype and a preference each is a few lines",
  VirtualMachineExport:
    "Patchbay does not have exports of VMs: nothing would offer the disks for download. Stop the VM, mount its claim into a pod and copy the disk from there (kubectl cp)",
};

/** Returns the reason why virt-api rejects objects of the kind; undefined if virt-api accepts them. */
export function findRejectionReason(kind: string): string | undefined {
  return Object.hasOwn(REJECTION_REASONS, kind) ? REJECTION_REASONS[kind] : undefined;
}

/** Source: Kubernetes authorization.k8s.io/v1 SubjectAccessReview. */
interface SubjectAccessReview extends KubeObject {
  readonly spec: {
    readonly user: string;
    readonly groups: readonly string[];
    readonly resourceAttributes: Readonly<Record<string, string>>;
  };
  readonly status?: { readonly allowed?: boolean };
}

/** Requests by which a service asks the API server whether a user has a permission. */
export const SUBJECT_ACCESS_REVIEWS: ResourceType<SubjectAccessReview> = {
  group: "authorization.k8s.io",
  version: "v1",
  resource: "subjectaccessreviews",
  kind: "SubjectAccessReview",
  namespaced: false,
};
