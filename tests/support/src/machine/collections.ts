// SPDX-License-Identifier: Apache-2.0
// Paths of collections by the short names of their kinds.
import type { DataVolume, VirtualMachine, VirtualMachineInstance } from "@patchbay/api";
import type {
  KubeNode,
  KubeObject,
  Lease,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
} from "@patchbay/api/kubernetes";

const DEFAULT = "namespaces/default";
const KUBEVIRT = "/apis/kubevirt.io/v1";
const CNI = "/apis/k8s.cni.cncf.io/v1";
const MIGRATIONS = "/apis/migrations.kubevirt.io/v1alpha1";

const RBAC = "/apis/rbac.authorization.k8s.io/v1";

const COLLECTIONS = {
  clusterrole: `${RBAC}/clusterroles`,
  clusterrolebinding: `${RBAC}/clusterrolebindings`,
  configmap: `/api/v1/${DEFAULT}/configmaps`,
  dv: `/apis/cdi.kubevirt.io/v1beta1/${DEFAULT}/datavolumes`,
  endpoints: `/api/v1/${DEFAULT}/endpoints`,
  event: `/api/v1/${DEFAULT}/events`,
  kubevirt: `${KUBEVIRT}/namespaces/patchbay/kubevirts`,
  lease: "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
  migrationpolicy: `${MIGRATIONS}/migrationpolicies`,
  "multi-networkpolicy": `/apis/k8s.cni.cncf.io/v1beta1/${DEFAULT}/multi-networkpolicies`,
  "net-attach-def": `${CNI}/${DEFAULT}/network-attachment-definitions`,
  namespace: "/api/v1/namespaces",
  node: "/api/v1/nodes",
  "node-lease-role": `${RBAC}/namespaces/kube-node-lease/roles`,
  "node-lease-rolebinding": `${RBAC}/namespaces/kube-node-lease/rolebindings`,
  pod: `/api/v1/${DEFAULT}/pods`,
  pv: "/api/v1/persistentvolumes",
  pvc: `/api/v1/${DEFAULT}/persistentvolumeclaims`,
  role: `${RBAC}/${DEFAULT}/roles`,
  rolebinding: `${RBAC}/${DEFAULT}/rolebindings`,
  secret: `/api/v1/${DEFAULT}/secrets`,
  networkpolicy: `/apis/networking.k8s.io/v1/${DEFAULT}/networkpolicies`,
  service: `/api/v1/${DEFAULT}/services`,
  vm: `${KUBEVIRT}/${DEFAULT}/virtualmachines`,
  vmi: `${KUBEVIRT}/${DEFAULT}/virtualmachineinstances`,
} as const;

/** Kinds that tests use. Namespaced ones are in `default`, KubeVirt in `patchbay`, leases in `kube-node-lease`. */
export type ShortKind = keyof typeof COLLECTIONS;

export function pathOf(kind: ShortKind, name?: string): string {
  return name === undefined ? COLLECTIONS[kind] : `${COLLECTIONS[kind]}/${name}`;
}

/** The event fields that tests read. */
export interface StoryEvent extends KubeObject {
  readonly type?: string;
  readonly reason: string;
  readonly message: string;
  readonly count?: number;
  readonly involvedObject: { readonly kind: string; readonly name: string };
}

interface TypedObjects {
  readonly dv: DataVolume;
  readonly event: StoryEvent;
  readonly lease: Lease;
  readonly node: KubeNode;
  readonly pod: Pod;
  readonly pv: PersistentVolume;
  readonly pvc: PersistentVolumeClaim;
  readonly vm: VirtualMachine;
  readonly vmi: VirtualMachineInstance;
}

/** The type of a kind's validated objects. */
export type ObjectOf<K extends ShortKind> = K extends keyof TypedObjects
  ? TypedObjects[K]
  : KubeObject;
