// SPDX-License-Identifier: Apache-2.0
// Default roles and bindings. Source: Kubernetes "Default roles and role bindings".
import { parseRules } from "../auth/authorizer.ts";
import { findMissingRules } from "../auth/rbac/escalation.ts";
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

function makeRule(
  apiGroup: string,
  resources: readonly string[],
  verbs: readonly string[],
): Fields {
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

function makeBinding(name: string, ...groups: readonly string[]): DefaultObject {
  const subjects = groups.map((group) => ({ kind: "Group", apiGroup: RBAC_GROUP, name: group }));
  const roleRef = { apiGroup: RBAC_GROUP, kind: "ClusterRole", name };
  const fields = { roleRef, ...(subjects.length === 0 ? {} : { subjects }) };
  return { resource: "clusterrolebindings", namespace: "", name, labels: {}, fields };
}

const ROLES: readonly DefaultObject[] = [
  role("cluster-admin", [makeRule("*", ["*"], ["*"]), { nonResourceURLs: ["*"], verbs: ["*"] }]),
  aggregate("admin"),
  aggregate("edit", "admin"),
  aggregate("view", "edit"),
  role(
    "system:aggregate-to-admin",
    [
      makeRule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
      makeRule(RBAC_GROUP, ["rolebindings", "roles"], [...READ_VERBS, ...WRITE_VERBS]),
    ],
    "admin",
  ),
  role(
    "system:aggregate-to-edit",
    [
      makeRule("", ["secrets", ...POD_CONNECT_SUBRESOURCES, "services/proxy"], READ_VERBS),
      makeRule("", ["serviceaccounts"], ["impersonate"]),
      makeRule("", ["pods", ...POD_CONNECT_SUBRESOURCES], WRITE_VERBS),
      makeRule("", ["pods/eviction", "serviceaccounts/token"], ["create"]),
      makeRule("", ["configmaps", "events", "persistentvolumeclaims", "secrets"], WRITE_VERBS),
      makeRule("", ["serviceaccounts", "services", "services/proxy"], WRITE_VERBS),
      makeRule("", ["replicationcontrollers", "replicationcontrollers/scale"], WRITE_VERBS),
      makeRule(
        "apps",
        ["daemonsets", ...SCALABLE_WORKLOADS, ...SCALABLE_WORKLOADS.map((name) => `${name}/scale`)],
        WRITE_VERBS,
      ),
      makeRule("batch", ["cronjobs", "jobs"], WRITE_VERBS),
      makeRule("policy", ["poddisruptionbudgets"], WRITE_VERBS),
      makeRule("networking.k8s.io", ["ingresses", "networkpolicies"], WRITE_VERBS),
      makeRule("resource.k8s.io", ["resourceclaims", "resourceclaimtemplates"], WRITE_VERBS),
      makeRule("coordination.k8s.io", ["leases"], [...READ_VERBS, ...WRITE_VERBS]),
    ],
    "edit",
  ),
  role(
    "system:aggregate-to-view",
    [
      makeRule("", ["configmaps", "endpoints", "pods", "serviceaccounts"], READ_VERBS),
      makeRule("", withStatusSubresource("persistentvolumeclaims", "services"), READ_VERBS),
      makeRule("", ["replicationcontrollers", "replicationcontrollers/scale"], READ_VERBS),
      makeRule("", ["bindings", "events", "limitranges", "namespaces/status"], READ_VERBS),
      makeRule("", ["pods/log", "pods/status", "replicationcontrollers/status"], READ_VERBS),
      makeRule("", withStatusSubresource("resourcequotas"), READ_VERBS),
      makeRule("", ["namespaces"], READ_VERBS),
      makeRule("discovery.k8s.io", ["endpointslices"], READ_VERBS),
      makeRule(
        "apps",
        ["controllerrevisions", ...withStatusSubresource("daemonsets", ...SCALABLE_WORKLOADS)],
        READ_VERBS,
      ),
      makeRule(
        "apps",
        SCALABLE_WORKLOADS.map((name) => `${name}/scale`),
        READ_VERBS,
      ),
      makeRule("batch", withStatusSubresource("cronjobs", "jobs"), READ_VERBS),
      makeRule("policy", withStatusSubresource("poddisruptionbudgets"), READ_VERBS),
      makeRule(
        "networking.k8s.io",
        [...withStatusSubresource("ingresses"), "networkpolicies"],
        READ_VERBS,
      ),
      makeRule(
        "resource.k8s.io",
        [...withStatusSubresource("resourceclaims"), "resourceclaimtemplates"],
        READ_VERBS,
      ),
    ],
    "view",
  ),
  role("system:basic-user", [
    makeRule(
      "authorization.k8s.io",
      ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
      ["create"],
    ),
    makeRule("authentication.k8s.io", ["selfsubjectreviews"], ["create"]),
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
    makeRule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    makeRule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
  ]),
  role("system:kube-aggregator", [makeRule("", ["endpoints", "services"], READ_VERBS)]),
  role("system:kube-scheduler", [
    makeRule("", ["events"], ["create", "patch", "update"]),
    makeRule("coordination.k8s.io", ["leases"], ["create", "get", "update"]),
    makeRule("", ["nodes"], READ_VERBS),
    makeRule("", ["pods"], ["delete", ...READ_VERBS]),
    makeRule("", ["bindings", "pods/binding"], ["create"]),
    makeRule("", ["pods/status"], ["patch", "update"]),
    makeRule("", ["services", "namespaces"], READ_VERBS),
  ]),
  role("system:node", [
    makeRule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    makeRule(
      "authorization.k8s.io",
      ["localsubjectaccessreviews", "subjectaccessreviews"],
      ["create"],
    ),
    makeRule("", ["services"], READ_VERBS),
    makeRule("", ["nodes"], ["create", ...READ_VERBS]),
    makeRule("", ["nodes/status", "nodes"], ["patch", "update"]),
    makeRule("", ["events"], ["create", "patch", "update"]),
    makeRule("", ["pods"], [...READ_VERBS, "create", "delete"]),
    makeRule("", ["pods/status"], ["patch", "update"]),
    makeRule("", ["pods/eviction"], ["create"]),
    makeRule("", ["configmaps", "secrets"], READ_VERBS),
    makeRule("", ["serviceaccounts/token"], ["create"]),
    makeRule("coordination.k8s.io", ["leases"], ["create", "delete", "get", "patch", "update"]),
  ]),
];

const BINDINGS: readonly DefaultObject[] = [
  makeBinding("cluster-admin", "system:masters"),
  makeBinding("system:basic-user", AUTHENTICATED),
  makeBinding("system:discovery", AUTHENTICATED),
  makeBinding("system:public-info-viewer", AUTHENTICATED, UNAUTHENTICATED),
  makeBinding("system:monitoring", "system:monitoring"),
  makeBinding("system:service-account-issuer-discovery", "system:serviceaccounts"),
  // Binds no subjects, as in Kubernetes, because the node authorizer authorizes nodes.
  makeBinding("system:node"),
];

const AUTHENTICATION_READER: DefaultObject = {
  resource: "roles",
  namespace: "kube-system",
  name: "extension-apiserver-authentication-reader",
  labels: {},
  fields: {
    rules: [
      {
        ...makeRule("", ["configmaps"], READ_VERBS),
        resourceNames: ["extension-apiserver-authentication"],
      },
    ],
  },
};

const DEFAULT_OBJECTS: readonly DefaultObject[] = [...ROLES, AUTHENTICATION_READER, ...BINDINGS];

const LABELS = { "kubernetes.io/bootstrapping": "rbac-defaults" } as const;
const AUTOUPDATE_ANNOTATION = "rbac.authorization.kubernetes.io/autoupdate";

/** Adds the desired rules that the role lacks. An aggregated role has no desired rules, because a controller writes its rules. */
function completeRules(object: KubeObject, desired: DefaultObject): void {
  const missingRules = asList(desired.fields["rules"]).filter(
    (rule) => findMissingRules(parseRules(object["rules"]), parseRules([rule])).length > 0,
  );
  if (missingRules.length > 0) {
    object["rules"] = [...asList(object["rules"]), ...copyJson(missingRules)];
  }
}

function completeSubjects(object: KubeObject, desired: DefaultObject): void {
  const existingSubjects = asList(object["subjects"]);
  const missingSubjects = asList(desired.fields["subjects"]).filter(
    (subject) => !existingSubjects.some((existingSubject) => equalJson(existingSubject, subject)),
  );
  if (missingSubjects.length > 0) {
    object["subjects"] = [...existingSubjects, ...copyJson(missingSubjects)];
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

/** Creates or completes the default objects. Does not change objects with the annotation autoupdate=false. */
export async function ensureDefaultRoles(deps: VerbDeps): Promise<void> {
  await deps.store.write((transaction) => {
    for (const desired of DEFAULT_OBJECTS) {
      ensureDefault(transaction, desired, deps);
    }
  });
}
