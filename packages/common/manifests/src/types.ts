// SPDX-License-Identifier: Apache-2.0
// Kinds of manifests, in the order of their dependencies.
import {
  API_SERVICES,
  apiVersionOf,
  DAEMON_SETS,
  DEPLOYMENTS,
  type KubeObject,
  MUTATING_WEBHOOKS,
  NAMESPACES,
  type ResourceType,
  SECRETS,
  STORAGE_CLASSES,
  VALIDATING_WEBHOOKS,
} from "@patchbay/api";
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

/** Dependencies first; webhooks and APIServices last, so that the API server calls only services that exist. */
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

/** Applied separately; a server may lack these kinds. Bindings come before the policies they name. */
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

/** Source: Kubernetes rbac.authorization.k8s.io/v1 PolicyRule */
export interface Rule {
  /** Together with `resources`; unset for paths. */
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  /** Paths that are not objects. */
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
