// SPDX-License-Identifier: Apache-2.0
// Of which kinds are the manifests, and in which order do they come?
import {
  API_SERVICES,
  apiVersionOf,
  DAEMON_SETS,
  DEPLOYMENTS,
  MUTATING_WEBHOOKS,
  NAMESPACES,
  SECRETS,
  STORAGE_CLASSES,
  VALIDATING_WEBHOOKS,
  type KubeObject,
  type ResourceType,
} from "@patchbay/api";
import { AppError } from "@patchbay/core";

const RBAC = { group: "rbac.authorization.k8s.io", version: "v1", namespaced: false } as const;
const CORE = { group: "", version: "v1", namespaced: true } as const;

/** Definitions of kinds. */
export const DEFINITIONS: ResourceType<KubeObject> = {
  group: "apiextensions.k8s.io",
  version: "v1",
  resource: "customresourcedefinitions",
  kind: "CustomResourceDefinition",
  namespaced: false,
};

const POLICIES: ResourceType<KubeObject> = {
  group: "networking.k8s.io",
  version: "v1",
  resource: "networkpolicies",
  kind: "NetworkPolicy",
  namespaced: true,
};
const BUDGETS: ResourceType<KubeObject> = {
  group: "policy",
  version: "v1",
  resource: "poddisruptionbudgets",
  kind: "PodDisruptionBudget",
  namespaced: true,
};
const PRIORITIES: ResourceType<KubeObject> = {
  group: "scheduling.k8s.io",
  version: "v1",
  resource: "priorityclasses",
  kind: "PriorityClass",
  namespaced: false,
};

/**
 * What others need comes before them: namespaces and kinds, accounts and their rights, pods, and last whom the API
 * server asks, so that it asks nobody who is not there yet.
 */
export const TYPES: readonly ResourceType<KubeObject>[] = [
  NAMESPACES,
  DEFINITIONS,
  PRIORITIES,
  { ...CORE, resource: "serviceaccounts", kind: "ServiceAccount" },
  { ...RBAC, resource: "clusterroles", kind: "ClusterRole" },
  { ...RBAC, resource: "clusterrolebindings", kind: "ClusterRoleBinding" },
  { ...RBAC, resource: "roles", kind: "Role", namespaced: true },
  { ...RBAC, resource: "rolebindings", kind: "RoleBinding", namespaced: true },
  SECRETS,
  STORAGE_CLASSES,
  { ...CORE, resource: "services", kind: "Service" },
  POLICIES,
  BUDGETS,
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

/**
 * What folders beside base may have brought, which are applied by themselves; a server that does not have such a kind has
 * none of them. Bindings before what they name.
 */
export const BESIDE: readonly ResourceType<KubeObject>[] = [
  {
    ...ADMISSION,
    resource: "validatingadmissionpolicybindings",
    kind: "ValidatingAdmissionPolicyBinding",
  },
  { ...ADMISSION, resource: "validatingadmissionpolicies", kind: "ValidatingAdmissionPolicy" },
];

/**
 * The kind of a manifest.
 * @throws AppError with API_MALFORMED for one that no manifest has
 */
export function typeOf({ apiVersion, kind }: KubeObject): ResourceType<KubeObject> {
  const found = TYPES.find((type) => type.kind === kind && apiVersionOf(type) === apiVersion);
  if (found !== undefined) return found;
  const reason = `there is no rule for applying a ${kind}`;
  throw new AppError("API_MALFORMED", { what: "a manifest", reason });
}
