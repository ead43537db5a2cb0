// SPDX-License-Identifier: Apache-2.0
// Kinds of the objects in manifests, in the order of installation.
import {
  API_SERVICES,
  apiVersionOf,
  DAEMON_SETS,
  DEPLOYMENTS,
  MUTATING_WEBHOOKS,
  NAMESPACES,
  type ResourceType,
  SECRETS,
  STORAGE_CLASSES,
  VALIDATING_WEBHOOKS,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";

const RBAC = { group: "rbac.authorization.k8s.io", version: "v1", namespaced: false } as const;
const CORE = { group: "", version: "v1", namespaced: true } as const;

export const DEFINITIONS: ResourceType<KubeObject> = {
  group: "apiextensions.k8s.io",
  version: "v1",
  resource: "customresourcedefinitions",
  kind: "CustomResourceDefinition",
  namespaced: false,
};

const NETWORK_POLICIES: ResourceType<KubeObject> = {
  group: "networking.k8s.io",
  version: "v1",
  resource: "networkpolicies",
  kind: "NetworkPolicy",
  namespaced: true,
};
const DISRUPTION_BUDGETS: ResourceType<KubeObject> = {
  group: "policy",
  version: "v1",
  resource: "poddisruptionbudgets",
  kind: "PodDisruptionBudget",
  namespaced: true,
};
const PRIORITY_CLASSES: ResourceType<KubeObject> = {
  group: "scheduling.k8s.io",
  version: "v1",
  resource: "priorityclasses",
  kind: "PriorityClass",
  namespaced: false,
};

/** Types in the order of installation. Webhooks and APIServices come last, because the services that they name must exist first. */
export const TYPES: readonly ResourceType<KubeObject>[] = [
  NAMESPACES,
  DEFINITIONS,
  PRIORITY_CLASSES,
  { ...CORE, resource: "serviceaccounts", kind: "ServiceAccount" },
  { ...RBAC, resource: "clusterroles", kind: "ClusterRole" },
  { ...RBAC, resource: "clusterrolebindings", kind: "ClusterRoleBinding" },
  { ...RBAC, resource: "roles", kind: "Role", namespaced: true },
  { ...RBAC, resource: "rolebindings", kind: "RoleBinding", namespaced: true },
  SECRETS,
  STORAGE_CLASSES,
  { ...CORE, resource: "services", kind: "Service" },
  NETWORK_POLICIES,
  DISRUPTION_BUDGETS,
  DEPLOYMENTS,
  DAEMON_SETS,
  API_SERVICES,
  MUTATING_WEBHOOKS,
  VALIDATING_WEBHOOKS,
];

const ADMISSION = {
  group: "admissionregistration.k8s.io",
  version: "v1",
  namespaced: false,
} as const;

/** Types that are applied separately, because a server may lack them. Bindings are deleted before the policies to which they refer. */
export const SEPARATE_TYPES: readonly ResourceType<KubeObject>[] = [
  {
    ...ADMISSION,
    resource: "validatingadmissionpolicybindings",
    kind: "ValidatingAdmissionPolicyBinding",
  },
  { ...ADMISSION, resource: "validatingadmissionpolicies", kind: "ValidatingAdmissionPolicy" },
];

/** @throws AppError with API_MALFORMED for an unknown kind */
export function findType({ apiVersion, kind }: KubeObject): ResourceType<KubeObject> {
  const found = TYPES.find((type) => type.kind === kind && apiVersionOf(type) === apiVersion);
  if (found !== undefined) return found;
  const reason = `there is no rule for applying a ${kind}`;
  throw new AppError("API_MALFORMED", { what: "a manifest", reason });
}

/** Rule of a role. Source: PolicyRule of rbac.authorization.k8s.io/v1. */
export interface Rule {
  /** API groups of `resources`; unset if the rule is for URL paths. */
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  /** URL paths that are not API resources, for example `/metrics`. */
  readonly nonResourceURLs?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

export interface Role extends KubeObject {
  readonly rules: readonly Rule[];
}

export function isRole(object: KubeObject): object is Role {
  return object.kind === "ClusterRole" || object.kind === "Role";
}
