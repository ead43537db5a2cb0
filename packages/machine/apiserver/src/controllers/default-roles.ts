// SPDX-License-Identifier: Apache-2.0
// Default roles and bindings, restored at each start. Source: Kubernetes "Default roles and role bindings".
import { parseRules } from "../auth/authorizer.ts";
import { missingRules } from "../auth/rbac/escalation.ts";
import { RBAC_GROUP } from "../auth/rbac/rbac.ts";
import { AUTHENTICATED, UNAUTHENTICATED } from "../auth/user.ts";
import { RBAC_KINDS } from "../kinds/access/rbac.ts";
import { type Fields, copyJson, equalJson, listOf } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Transaction } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { keepObject } from "./internal-writes.ts";

/** A role, or a binding of a cluster role to groups, that the server keeps. */
interface DefaultObject {
  readonly resource: "clusterroles" | "clusterrolebindings" | "roles";
  /** Empty for the cluster. */
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly fields: Fields;
}

const READ: readonly string[] = ["get", "list", "watch"];
const CHANGE: readonly string[] = ["create", "delete", "deletecollection", "patch", "update"];
/** Subresources that lead into a pod. */
const POD_DOORS: readonly string[] = ["attach", "exec", "portforward", "proxy"].map(
  (name) => `pods/${name}`,
);
/** Workloads with a scale. */
const SCALED: readonly string[] = ["deployments", "replicasets", "statefulsets"];
const AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-";

function allow(apiGroup: string, resources: readonly string[], verbs: readonly string[]): Fields {
  return { apiGroups: [apiGroup], resources, verbs };
}

function withStatus(...resources: readonly string[]): string[] {
  return resources.flatMap((resource) => [resource, `${resource}/status`]);
}

function paths(...nonResourceURLs: readonly string[]): Fields {
  return { nonResourceURLs, verbs: ["get"] };
}

function role(name: string, rules: readonly Fields[], aggregatedTo = ""): DefaultObject {
  const labels = aggregatedTo === "" ? {} : { [`${AGGREGATE}${aggregatedTo}`]: "true" };
  return { resource: "clusterroles", namespace: "", name, labels, fields: { rules } };
}

/** A role whose rules are those of the roles that are labelled for it. */
function aggregate(name: string, aggregatedTo = ""): DefaultObject {
  const clusterRoleSelectors = [{ matchLabels: { [`${AGGREGATE}${name}`]: "true" } }];
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
      allow(RBAC_GROUP, ["rolebindings", "roles"], [...READ, ...CHANGE]),
    ],
    "admin",
  ),
  role(
    "system:aggregate-to-edit",
    [
      allow("", ["secrets", ...POD_DOORS, "services/proxy"], READ),
      allow("", ["serviceaccounts"], ["impersonate"]),
      allow("", ["pods", ...POD_DOORS], CHANGE),
      allow("", ["pods/eviction", "serviceaccounts/token"], ["create"]),
      allow("", ["configmaps", "events", "persistentvolumeclaims", "secrets"], CHANGE),
      allow("", ["serviceaccounts", "services", "services/proxy"], CHANGE),
      allow("", ["replicationcontrollers", "replicationcontrollers/scale"], CHANGE),
      allow("apps", ["daemonsets", ...SCALED, ...SCALED.map((name) => `${name}/scale`)], CHANGE),
      allow("batch", ["cronjobs", "jobs"], CHANGE),
      allow("policy", ["poddisruptionbudgets"], CHANGE),
      allow("networking.k8s.io", ["ingresses", "networkpolicies"], CHANGE),
      allow("coordination.k8s.io", ["leases"], [...READ, ...CHANGE]),
    ],
    "edit",
  ),
  role(
    "system:aggregate-to-view",
    [
      allow("", ["configmaps", "endpoints", "pods", "serviceaccounts"], READ),
      allow("", withStatus("persistentvolumeclaims", "services"), READ),
      allow("", ["replicationcontrollers", "replicationcontrollers/scale"], READ),
      allow("", ["bindings", "events", "limitranges", "namespaces/status"], READ),
      allow("", ["pods/log", "pods/status", "replicationcontrollers/status"], READ),
      allow("", withStatus("resourcequotas"), READ),
      allow("", ["namespaces"], READ),
      allow("discovery.k8s.io", ["endpointslices"], READ),
      allow("apps", ["controllerrevisions", ...withStatus("daemonsets", ...SCALED)], READ),
      allow(
        "apps",
        SCALED.map((name) => `${name}/scale`),
        READ,
      ),
      allow("batch", withStatus("cronjobs", "jobs"), READ),
      allow("policy", withStatus("poddisruptionbudgets"), READ),
      allow("networking.k8s.io", [...withStatus("ingresses"), "networkpolicies"], READ),
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
    paths(
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
    paths("/healthz", "/livez", "/readyz", "/version", "/version/"),
  ]),
  role("system:monitoring", [
    paths(
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
    paths(
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
  role("system:kube-aggregator", [allow("", ["endpoints", "services"], READ)]),
  role("system:kube-scheduler", [
    allow("", ["events"], ["create", "patch", "update"]),
    allow("coordination.k8s.io", ["leases"], ["create", "get", "update"]),
    allow("", ["nodes"], READ),
    allow("", ["pods"], ["delete", ...READ]),
    allow("", ["bindings", "pods/binding"], ["create"]),
    allow("", ["pods/status"], ["patch", "update"]),
    allow("", ["services", "namespaces"], READ),
  ]),
  role("system:node", [
    allow("authentication.k8s.io", ["tokenreviews"], ["create"]),
    allow(
      "authorization.k8s.io",
      ["localsubjectaccessreviews", "subjectaccessreviews"],
      ["create"],
    ),
    allow("", ["services"], READ),
    allow("", ["nodes"], ["create", ...READ]),
    allow("", ["nodes/status", "nodes"], ["patch", "update"]),
    allow("", ["events"], ["create", "patch", "update"]),
    allow("", ["pods"], [...READ, "create", "delete"]),
    allow("", ["pods/status"], ["patch", "update"]),
    allow("", ["pods/eviction"], ["create"]),
    allow("", ["configmaps", "secrets"], READ),
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
  // As on a cluster: what a node may do is not the same for all nodes, so nobody has this role by it.
  bind("system:node"),
];

/** Lets servers behind this one read how to recognize it. */
const AUTHENTICATION_READER: DefaultObject = {
  resource: "roles",
  namespace: "kube-system",
  name: "extension-apiserver-authentication-reader",
  labels: {},
  fields: {
    rules: [
      {
        ...allow("", ["configmaps"], READ),
        resourceNames: ["extension-apiserver-authentication"],
      },
    ],
  },
};

/** Everything that is kept, roles before bindings. */
const DEFAULT_OBJECTS: readonly DefaultObject[] = [...ROLES, AUTHENTICATION_READER, ...BINDINGS];

const LABELS = { "kubernetes.io/bootstrapping": "rbac-defaults" } as const;
const AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate";

/** Rules beside the wanted ones stay; those of an aggregating role are somebody else's business. */
function completeRules(object: KubeObject, wanted: DefaultObject): void {
  const missing = listOf(wanted.fields["rules"]).filter(
    (rule) => missingRules(parseRules(object["rules"]), parseRules([rule])).length > 0,
  );
  if (missing.length > 0) {
    object["rules"] = [...listOf(object["rules"]), ...copyJson(missing)];
  }
}

function completeSubjects(object: KubeObject, wanted: DefaultObject): void {
  const known = listOf(object["subjects"]);
  const missing = listOf(wanted.fields["subjects"]).filter(
    (subject) => !known.some((other) => equalJson(other, subject)),
  );
  if (missing.length > 0) {
    object["subjects"] = [...known, ...copyJson(missing)];
  }
}

function complete(object: KubeObject, wanted: DefaultObject): void {
  const { metadata } = object;
  metadata.labels = { ...metadata.labels, ...LABELS, ...wanted.labels };
  metadata.annotations = { ...metadata.annotations, [AUTOUPDATE]: "true" };
  if (wanted.fields["aggregationRule"] !== undefined) {
    object["aggregationRule"] = copyJson(wanted.fields["aggregationRule"]);
  }
  completeRules(object, wanted);
  completeSubjects(object, wanted);
}

function isOurs(object: KubeObject): boolean {
  return object.metadata.annotations?.[AUTOUPDATE] !== "false";
}

function keep(transaction: Transaction, wanted: DefaultObject, deps: VerbDeps): void {
  const kind = RBAC_KINDS.find(({ resource }) => resource === wanted.resource);
  if (kind === undefined) {
    return;
  }
  const kept = { kind, namespace: wanted.namespace, name: wanted.name };
  keepObject(transaction, { kept, deps }, (object, isNew) => {
    if (isNew) {
      Object.assign(object, copyJson(wanted.fields));
    }
    if (isOurs(object)) {
      complete(object, wanted);
    }
  });
}

/** Brings the default roles and bindings up to date, all at once; those that are annotated not to be updated stay as they are. */
export async function keepDefaultRoles(deps: VerbDeps): Promise<void> {
  await deps.store.write((transaction) => {
    for (const wanted of DEFAULT_OBJECTS) {
      keep(transaction, wanted, deps);
    }
  });
}
