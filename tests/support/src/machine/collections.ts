// SPDX-License-Identifier: Apache-2.0
// Paths of the collections that tests change, by the short names of their kinds.
const DEFAULT = "namespaces/default";
const KUBEVIRT = "/apis/kubevirt.io/v1";
const CNI = "/apis/k8s.cni.cncf.io/v1";
const MIGRATIONS = "/apis/migrations.kubevirt.io/v1alpha1";

const COLLECTIONS = {
  configmap: `/api/v1/${DEFAULT}/configmaps`,
  kubevirt: `${KUBEVIRT}/namespaces/patchbay/kubevirts`,
  migrationpolicy: `${MIGRATIONS}/migrationpolicies`,
  "net-attach-def": `${CNI}/${DEFAULT}/network-attachment-definitions`,
  pod: `/api/v1/${DEFAULT}/pods`,
  pv: "/api/v1/persistentvolumes",
  pvc: `/api/v1/${DEFAULT}/persistentvolumeclaims`,
  service: `/api/v1/${DEFAULT}/services`,
  vm: `${KUBEVIRT}/${DEFAULT}/virtualmachines`,
  vmi: `${KUBEVIRT}/${DEFAULT}/virtualmachineinstances`,
} as const;

/** Kinds whose objects tests delete and patch; those with a namespace are in `default`, KubeVirt is in `patchbay`. */
export type ShortKind = keyof typeof COLLECTIONS;

/** Path of an object. */
export function pathOf(kind: ShortKind, name: string): string {
  return `${COLLECTIONS[kind]}/${name}`;
}
