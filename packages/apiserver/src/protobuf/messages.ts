// SPDX-License-Identifier: Apache-2.0
// The messages in which typed clients send built-in kinds. Source: Kubernetes generated.proto of each API group.

/** How a field is read. `message` names another table. */
export type FieldType =
  | "text"
  /** Bytes, base64 in JSON. */
  | "bytes"
  | "integer"
  | "boolean"
  /** An integer whose 0 means absent: Go writes fields that are no pointers always. */
  | "count"
  /** A truth value whose false means absent. */
  | "flag"
  | "time"
  | "microTime"
  | "integerOrText"
  | { readonly message: string };

/** One field: its name in JSON, its type, whether there may be several, or whether it maps names to values. */
export interface Field {
  readonly name: string;
  readonly type: FieldType;
  readonly many?: "list" | "map";
}

/** Fields by number. */
export type Message = Readonly<Record<number, Field>>;

function one(name: string, type: FieldType = "text"): Field {
  return { name, type };
}

function list(name: string, type: FieldType = "text"): Field {
  return { name, type, many: "list" };
}

function map(name: string, type: FieldType = "text"): Field {
  return { name, type, many: "map" };
}

function message(name: string): FieldType {
  return { message: name };
}

const METADATA = one("metadata", message("ObjectMeta"));

function withSpec(spec: string): Message {
  return { 1: METADATA, 2: one("spec", message(spec)) };
}

const RULES = { 1: METADATA, 2: list("rules", message("PolicyRule")) };
const BINDING = {
  1: METADATA,
  2: list("subjects", message("Subject")),
  3: one("roleRef", message("RoleRef")),
};

/** Messages by name. Kinds that are not here are taken as JSON and YAML only. */
export const MESSAGES: Readonly<Record<string, Message>> = {
  ObjectMeta: {
    1: one("name"),
    2: one("generateName"),
    3: one("namespace"),
    5: one("uid"),
    6: one("resourceVersion"),
    7: one("generation", "count"),
    8: one("creationTimestamp", "time"),
    9: one("deletionTimestamp", "time"),
    10: one("deletionGracePeriodSeconds", "integer"),
    11: map("labels"),
    12: map("annotations"),
    13: list("ownerReferences", message("OwnerReference")),
    14: list("finalizers"),
  },
  OwnerReference: {
    1: one("kind"),
    3: one("name"),
    4: one("uid"),
    5: one("apiVersion"),
    6: one("controller", "boolean"),
    7: one("blockOwnerDeletion", "boolean"),
  },
  Namespace: withSpec("NamespaceSpec"),
  NamespaceSpec: { 1: list("finalizers") },
  ConfigMap: {
    1: METADATA,
    2: map("data"),
    3: map("binaryData", "bytes"),
    4: one("immutable", "boolean"),
  },
  Secret: {
    1: METADATA,
    2: map("data", "bytes"),
    3: one("type"),
    4: map("stringData"),
    5: one("immutable", "boolean"),
  },
  ServiceAccount: {
    1: METADATA,
    2: list("secrets", message("ObjectReference")),
    3: list("imagePullSecrets", message("LocalObjectReference")),
    4: one("automountServiceAccountToken", "boolean"),
  },
  LocalObjectReference: { 1: one("name") },
  ObjectReference: {
    1: one("kind"),
    2: one("namespace"),
    3: one("name"),
    4: one("uid"),
    5: one("apiVersion"),
  },
  Service: withSpec("ServiceSpec"),
  ServiceSpec: {
    1: list("ports", message("ServicePort")),
    2: map("selector"),
    3: one("clusterIP"),
    4: one("type"),
    5: list("externalIPs"),
    7: one("sessionAffinity"),
    10: one("externalName"),
    11: one("externalTrafficPolicy"),
    13: one("publishNotReadyAddresses", "flag"),
    17: one("ipFamilyPolicy"),
    18: list("clusterIPs"),
    19: list("ipFamilies"),
    22: one("internalTrafficPolicy"),
  },
  ServicePort: {
    1: one("name"),
    2: one("protocol"),
    3: one("port", "integer"),
    4: one("targetPort", "integerOrText"),
    5: one("nodePort", "count"),
    6: one("appProtocol"),
  },
  Lease: withSpec("LeaseSpec"),
  LeaseSpec: {
    1: one("holderIdentity"),
    2: one("leaseDurationSeconds", "integer"),
    3: one("acquireTime", "microTime"),
    4: one("renewTime", "microTime"),
    5: one("leaseTransitions", "integer"),
  },
  Role: RULES,
  ClusterRole: RULES,
  PolicyRule: {
    1: list("verbs"),
    2: list("apiGroups"),
    3: list("resources"),
    4: list("resourceNames"),
    5: list("nonResourceURLs"),
  },
  RoleBinding: BINDING,
  ClusterRoleBinding: BINDING,
  Subject: { 1: one("kind"), 2: one("apiGroup"), 3: one("name"), 4: one("namespace") },
  RoleRef: { 1: one("apiGroup"), 2: one("kind"), 3: one("name") },
  SelfSubjectReview: { 1: METADATA },
  SelfSubjectAccessReview: withSpec("SubjectAccessReviewSpec"),
  SubjectAccessReview: withSpec("SubjectAccessReviewSpec"),
  LocalSubjectAccessReview: withSpec("SubjectAccessReviewSpec"),
  SubjectAccessReviewSpec: {
    1: one("resourceAttributes", message("ResourceAttributes")),
    2: one("nonResourceAttributes", message("NonResourceAttributes")),
    3: one("user"),
    4: list("groups"),
  },
  ResourceAttributes: {
    1: one("namespace"),
    2: one("verb"),
    3: one("group"),
    4: one("version"),
    5: one("resource"),
    6: one("subresource"),
    7: one("name"),
  },
  NonResourceAttributes: { 1: one("path"), 2: one("verb") },
  TokenReview: withSpec("TokenReviewSpec"),
  TokenReviewSpec: { 1: one("token"), 2: list("audiences") },
  Binding: { 1: METADATA, 2: one("target", message("ObjectReference")) },
  Eviction: { 1: METADATA, 2: one("deleteOptions", message("DeleteOptions")) },
  DeleteOptions: {
    1: one("gracePeriodSeconds", "integer"),
    2: one("preconditions", message("Preconditions")),
    3: one("orphanDependents", "boolean"),
    4: one("propagationPolicy"),
    5: list("dryRun"),
  },
  Preconditions: { 1: one("uid"), 2: one("resourceVersion") },
};
