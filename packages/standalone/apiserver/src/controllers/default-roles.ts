// SPDX-License-Identifier: Apache-2.0
// Default roles and bindings. Source: Kubernetes "Default roles and role bindings".
import { parseRules } from "../auth/authorizer.ts";
import { missingRules } from "../auth/rbac/escalation.ts";
import { RBAC_GROUP } from "../auth/rbac/rbac.ts";
import { AUTHENTICATED, UNAUTHENTICATED } from "../auth/user.ts";
import { RBAC_KINDS } from "../kinds/access/rbac.ts";
import { type Fields, copyJson, equalJson, asList } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Transaction } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { ensureObject } from "./internal-writes.ts";

interface DefaultObject {
  readonly resource: "clusterroles" | "clusterrolebindings" | "roles";
  /** Namespace of the object; empty for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly fields: Fields;
}

const READ_VERBS: readonly string[] = ["get", "list", "watch"];
const WRITE_VERBS: readonly string[] = ["create", "delete", "deletecollection", "patch", "update"];
const POD_CONNECT_SUBRESOURCES: readonly string[] = ["attach", "exec", "portforward", "proxy"].map(
  (name) => `pods/${name}`,
);
const SCALABLE_WORKLOADS: readonly string[] = ["deployments", "replicasets", "statefulsets"];
const AGGREGATE_LABEL_PREFIX = "rbac.authorization.k8s.io/aggregate-to-";

function allow(apiGroup: string, resources: readonly string[], verbs: readonly string[]): Fields {
  return { apiGroups: [apiGroup], resources, verbs };
}

function withStatusSubresource(...resources: readonly string[]): string[] {
  return resources.flatMap((resource) => [resource, `${resource}/status`]);
}

function allowPaths(...nonResourceURLs: readonly string[]): Fields {
  return { nonResourceURLs, verbs: ["get"] };
}

function role(name: string, rules: readonly Fields[], aggregatedTo = ""): DefaultObject {
  const labels =
    aggregatedTo === "" ? {} : { [`${AGGREGATE_LABEL_PREFIX}${aggregatedTo}`]: "true" };
  return { resource: "clusterroles", namespace: "", name, labels, fields: { rules } };
}

function aggregate(name: string, aggregatedTo = ""): DefaultObject {
  const clusterRoleSelectors = [{ matchLabels: { [`${AGGREGATE_LABEL_PREFIX}${name}`]: "true" } }];
  const { labels } = role(name, [], aggregatedTo);
  const fields = { aggregationRule: { clusterRoleSelectors }, rules: null };
  return { resource: "clusterroles", namespace: "", name, labels, fields };
}

function bind(name: string, ...groups: readonly string[]): DefaultObject {
  const subjects = groups.map((group) => ({ kind: "Group", apiGroup: RBAC_GROUP, name: group }));
  const roleRef = { apiGroup: RBAC_GROUP, kind: "ClusterRole", name };
  const fields = { roleRef, ...(subjects.length === 0 ? {} : { subjects }) };
  return { resource: "clusterrolebindings", namespace: "", name, labels: {}, fields };
}

const ROLES: readonly DefaultObject[] = [
  role("cluster-admin", [allow("*", ["*"], ["*"]), { nonResourceURLs: ["*"], verbs: ["*"] }]),
  aggregate("admin"),
  aggregate("edit", "admin"),
  aggregate("view", "edit"),
  role(
    "system:aggregate-to-admin",
    [
      allow("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
      allow(RBAC_GROUP, ["rolebindings", "roles"], [...READ_VERBS, ...WRITE_VERBS]),
    ],
    "admin",
  ),
  role(
    "system:aggregate-to-edit",
    [
      allow("", ["secrets", ...POD_CONNECT_SUBRESOURCES, "services/proxy"], READ_VERBS),
      allow("", ["serviceaccounts"], ["impersonate"]),
      allow("", ["pods", ...POD_CONNECT_SUBRESOURCES], WRITE_VERBS),
      allow("", ["pods/eviction", "serviceaccounts/token"], ["create"]),
      allow("", ["configmaps", "events", "persistentvolumeclaims", "secrets"], WRITE_VERBS),
      allow("", ["serviceaccounts", "services", "services/proxy"], WRITE_VERBS),
      allow("", ["replicationcontrollers", "replicationcontrollers/scale"], WRITE_VERBS),
      allow(
        "apps",
        ["daemonsets", ...SCALABLE_WORKLOADS, ...SCALABLE_WORKLOADS.map((name) => `${name}/scale`)],
        WRITE_VERBS,
      ),
      allow("batch", ["cronjobs", "jobs"], WRITE_VERBS),
      allow("policy", ["poddisruptionbudgets"], WRITE_VERBS),
      allow("networking.k8s.io", ["ingresses", "networkpolicies"], WRITE_VERBS),
      allow("coordination.k8s.io", ["leases"], [...READ_VERBS, ...WRITE_VERBS]),
    ],
    "edit",
  ),
  role(
    "system:aggregate-to-view",
    [
      allow("", ["configmaps", "endpoints", "pods", "serviceaccounts"], READ_VERBS),
      allow("", withStatusSubresource("persistentvolumeclaims", "services"), READ_VERBS),
      allow("", ["replicationcontrollers", "replicationcontrollers/scale"], READ_VERBS),
      allow("", ["bindings", "events", "limitranges", "namespaces/status"], READ_VERBS),
      allow("", ["pods/log", "pods/status", "replicationcontrollers/status"], READ_VERBS),
      allow("", withStatusSubresource("resourcequotas"), READ_VERBS),
      allow("", ["namespaces"], READ_VERBS),
      allow("discovery.k8s.io", ["endpointslices"], READ_VERBS),
      allow(
        "apps",
        ["controllerrevisions", ...withStatusSubresource("daemonsets", ...SCALABLE_WORKLOADS)],
        READ_VERBS,
      ),
      allow(
        "apps",
        SCALABLE_WORKLOADS.map((name) => `${name}/scale`),
        READ_VERBS,
      ),
      allow("batch", withStatusSubresource("cronjobs", "jobs"), READ_VERBS),
      allow("policy", withStatusSubresource("poddisruptionbudgets"), READ_VERBS),
      allow(
        "networking.k8s.io",
        [...withStatusSubresource("ingresses"), "networkpolicies"],
        READ_VERBS,
      ),
    ],
    "view",
  ),
  role("system:basic-user", [
    allow(
      "authorization.k8s.io",
      ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
      ["create"],
    ),
    allow("authentication.k8s.io", ["selfsubjectreviews"], ["create"]),
  ]),
  role("system:discovery", [
    allowPaths(
      "/api",
      "/api/*",
      "/apis",
      "/apis/*",
      "/healthz",
      "/livez",
      "/openapi",
      "/openapi/*",
      "/readyz",
      "/version",
      "/version/",
    ),
  ]),
  role("system:public-info-viewer", [
    allowPaths("/healthz", "/livez", "/readyz", "/version", "/version/"),
  ]),
  role("system:monitoring", [
    allowPaths(
      "/healthz",
      "/healthz/*",
      "/livez",
      "/livez/*",
      "/metrics",
      "/metrics/slis",
      "/readyz",
      "/readyz/*",
    ),
  ]),
  role("system:service-account-issuer-discovery", [
    allowPaths(
      "/.well-known/openid-configuration",
      "/.well-known/openid-configuration/",
      "/openid/v1/jwks",
      "/openid/v1/jwks/",
    ),
  ]),
  role("system:auth-delegator", [
    allow("authentication.k8s.io", ["tokenreviews"], ["create"]),
    allow("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
  ]),
  role("system:kube-aggregator", [allow("", ["endpoints", "services"], READ_VERBS)]),
  role("system:kube-scheduler", [
    allow("", ["events"], ["create", "patch", "update"]),
    allow("coordination.k8s.io", ["leases"], ["create", "get", "update"]),
    allow("", ["nodes"], READ_VERBS),
    allow("", ["pods"], ["delete", ...READ_VERBS]),
    allow("", ["bindings", "pods/binding"], ["create"]),
    allow("", ["pods/status"], ["patch", "update"]),
    allow("", ["services", "namespaces"], READ_VERBS),
  ]),
  role("system:node", [
    allow("authentication.k8s.io", ["tokenreviews"], ["create"]),
    allow(
      "authorization.k8s.io",
      ["localsubjectaccessreviews", "subjectaccessreviews"],
      ["create"],
    ),
    allow("", ["services"], READ_VERBS),
    allow("", ["nodes"], ["create", ...READ_VERBS]),
    allow("", ["nodes/status", "nodes"], ["patch", "update"]),
    allow("", ["events"], ["create", "patch", "update"]),
    allow("", ["pods"], [...READ_VERBS, "create", "delete"]),
    allow("", ["pods/status"], ["patch", "update"]),
    allow("", ["pods/eviction"], ["create"]),
    allow("", ["configmaps", "secrets"], READ_VERBS),
    allow("", ["serviceaccounts/token"], ["create"]),
    allow("coordination.k8s.io", ["leases"], ["create", "delete", "get", "patch", "update"]),
  ]),
];

const BINDINGS: readonly DefaultObject[] = [
  bind("cluster-admin", "system:masters"),
  bind("system:basic-user", AUTHENTICATED),
  bind("system:discovery", AUTHENTICATED),
  bind("system:public-info-viewer", AUTHENTICATED, UNAUTHENTICATED),
  bind("system:monitoring", "system:monitoring"),
  bind("system:service-account-issuer-discovery", "system:serviceaccounts"),
  // Binds no subjects, like Kubernetes: the node authorizer and NodeRestriction decide for each node.
  bind("system:node"),
];

const AUTHENTICATION_READER: DefaultObject = {
  resource: "roles",
  namespace: "kube-system",
  name: "extension-apiserver-authentication-reader",
  labels: {},
  fields: {
    rules: [
      {
        ...allow("", ["configmaps"], READ_VERBS),
        resourceNames: ["extension-apiserver-authentication"],
      },
    ],
  },
};

const DEFAULT_OBJECTS: readonly DefaultObject[] = [...ROLES, AUTHENTICATION_READER, ...BINDINGS];

const LABELS = { "kubernetes.io/bootstrapping": "rbac-defaults" } as const;
const AUTOUPDATE_ANNOTATION = "rbac.authorization.kubernetes.io/autoupdate";

/** Adds missing rules. Aggregated roles get no rules here, because their controller writes them. */
function completeRules(object: KubeObject, desired: DefaultObject): void {
  const missing = asList(desired.fields["rules"]).filter(
    (rule) => missingRules(parseRules(object["rules"]), parseRules([rule])).length > 0,
  );
  if (missing.length > 0) {
    object["rules"] = [...asList(object["rules"]), ...copyJson(missing)];
  }
}

function completeSubjects(object: KubeObject, desired: DefaultObject): void {
  const existing = asList(object["subjects"]);
  const missing = asList(desired.fields["subjects"]).filter(
    (subject) => !existing.some((other) => equalJson(other, subject)),
  );
  if (missing.length > 0) {
    object["subjects"] = [...existing, ...copyJson(missing)];
  }
}

function completeObject(object: KubeObject, desired: DefaultObject): void {
  const { metadata } = object;
  metadata.labels = { ...metadata.labels, ...LABELS, ...desired.labels };
  metadata.annotations = { ...metadata.annotations, [AUTOUPDATE_ANNOTATION]: "true" };
  if (desired.fields["aggregationRule"] !== undefined) {
    object["aggregationRule"] = copyJson(desired.fields["aggregationRule"]);
  }
  completeRules(object, desired);
  completeSubjects(object, desired);
}

function isAutoUpdated(object: KubeObject): boolean {
  return object.metadata.annotations?.[AUTOUPDATE_ANNOTATION] !== "false";
}

function ensureDefault(transaction: Transaction, desired: DefaultObject, deps: VerbDeps): void {
  const kind = RBAC_KINDS.find(({ resource }) => resource === desired.resource);
  if (kind === undefined) {
    return;
  }
  const key = { kind, namespace: desired.namespace, name: desired.name };
  ensureObject(transaction, key, deps, (object, isNew) => {
    if (isNew) {
      Object.assign(object, copyJson(desired.fields));
    }
    if (isAutoUpdated(object)) {
      completeObject(object, desired);
    }
  });
}

/** Ensures the default objects. Retains additional rules, and objects with the annotation autoupdate=false. */
export async function ensureDefaultRoles(deps: VerbDeps): Promise<void> {
  await deps.store.write((transaction) => {
    for (const desired of DEFAULT_OBJECTS) {
      ensureDefault(transaction, desired, deps);
    }
  });
}
