// SPDX-License-Identifier: Apache-2.0
// In which order are groups and versions shown? Source: kube-apiserver, apiVersionPriorities.

/** Higher comes first. */
export interface Priority {
  readonly group: number;
  readonly version: number;
}

const BUILT_IN: Readonly<Record<string, number>> = {
  "": 18_000,
  apps: 17_800,
  "events.k8s.io": 17_750,
  "authentication.k8s.io": 17_700,
  "authorization.k8s.io": 17_600,
  autoscaling: 17_500,
  batch: 17_400,
  "certificates.k8s.io": 17_300,
  "networking.k8s.io": 17_200,
  policy: 17_100,
  "rbac.authorization.k8s.io": 17_000,
  "storage.k8s.io": 16_800,
  "apiextensions.k8s.io": 16_700,
  "admissionregistration.k8s.io": 16_700,
  "scheduling.k8s.io": 16_600,
  "coordination.k8s.io": 16_500,
  "node.k8s.io": 16_300,
  "discovery.k8s.io": 16_200,
  "flowcontrol.apiserver.k8s.io": 16_100,
};

/** Of groups that a CustomResourceDefinition brings: low, and versions by their names. */
const CUSTOM: Priority = { group: 1000, version: 100 };

/** The priority of a group version that this server has itself. */
export function localPriority(group: string, version: string, isCustom: boolean): Priority {
  if (isCustom) {
    return CUSTOM;
  }
  const newest = group === "autoscaling" && version === "v2" ? 30 : 15;
  return { group: BUILT_IN[group] ?? 16_000, version: group === "" ? 1 : newest };
}
