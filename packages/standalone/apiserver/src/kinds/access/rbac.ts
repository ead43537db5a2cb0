// SPDX-License-Identifier: Apache-2.0
// Roles, role bindings, and reviews of access, whose result is the response to the request. Source: Kubernetes rbac validation.
import { pathSegmentFault, subdomainFault } from "../../meta/names.ts";
import { equalJson, isFields, asList, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Column, type Kind, type KindOptions, type Strategy, defineKind } from "../kind.ts";
import type { Cause } from "../../meta/status.ts";
import { invalidValue, requiredValue, unsupportedValue } from "../../meta/causes.ts";

const RBAC_GROUP = "rbac.authorization.k8s.io";
const SUBJECT_KINDS: readonly string[] = ["ServiceAccount", "User", "Group"];

/** Creates a cause. `value` must be in Go syntax, as kube-apiserver prints it. */
function invalidGoValue(field: string, value: string, message: string): Cause {
  return { reason: "FieldValueInvalid", field, message: `Invalid value: ${value}: ${message}` };
}

function isEmpty(rule: unknown, key: string): boolean {
  return asList(valueAt(rule, key)).length === 0;
}

function nonResourceUrlCauses(rule: unknown, field: string, isNamespaced: boolean): Cause[] {
  const urls = asList(valueAt(rule, "nonResourceURLs")).map((url) => JSON.stringify(url));
  const printedUrls = `[]string{${urls.join(", ")}}`;
  const fieldPath = `${field}.nonResourceURLs`;
  const hasResources = ["apiGroups", "resources", "resourceNames"].some(
    (key) => !isEmpty(rule, key),
  );
  const namespacedMessage = "namespaced rules cannot apply to non-resource URLs";
  const bothMessage = "rules cannot apply to both regular resources and non-resource URLs";
  return [
    ...(isNamespaced ? [invalidGoValue(fieldPath, printedUrls, namespacedMessage)] : []),
    ...(hasResources ? [invalidGoValue(fieldPath, printedUrls, bothMessage)] : []),
  ];
}

function ruleCauses(rule: unknown, field: string, isNamespaced: boolean): Cause[] {
  const missingCauses = (key: string, message: string) =>
    isEmpty(rule, key) ? [requiredValue(`${field}.${key}`, message)] : [];
  const verbs = missingCauses("verbs", "verbs must contain at least one value");
  if (!isEmpty(rule, "nonResourceURLs")) {
    return [...verbs, ...nonResourceUrlCauses(rule, field, isNamespaced)];
  }
  return [
    ...verbs,
    ...missingCauses("apiGroups", "resource rules must supply at least one api group"),
    ...missingCauses("resources", "resource rules must supply at least one resource"),
  ];
}

function roleCauses(role: KubeObject): Cause[] {
  return asList(role["rules"]).flatMap((rule, index) =>
    ruleCauses(rule, `rules[${String(index)}]`, true),
  );
}

function clusterRoleCauses(role: KubeObject): Cause[] {
  const aggregationRule = role["aggregationRule"];
  const lacksSelectors =
    isFields(aggregationRule) && isEmpty(aggregationRule, "clusterRoleSelectors");
  const message = "at least one clusterRoleSelector required if aggregationRule is non-nil";
  return [
    ...asList(role["rules"]).flatMap((rule, index) =>
      ruleCauses(rule, `rules[${String(index)}]`, false),
    ),
    ...(lacksSelectors ? [requiredValue("aggregationRule.clusterRoleSelectors", message)] : []),
  ];
}

function serviceAccountCauses(subject: unknown, field: string, isNamespaced: boolean): Cause[] {
  const name = textAt(subject, "name");
  const group = textAt(subject, "apiGroup");
  const fault = name === "" ? undefined : subdomainFault(name);
  const lacksNamespace = !isNamespaced && textAt(subject, "namespace") === "";
  return [
    ...(fault === undefined ? [] : [invalidValue(`${field}.name`, name, fault)]),
    ...(group === "" ? [] : [unsupportedValue(`${field}.apiGroup`, group, [""])]),
    ...(lacksNamespace ? [requiredValue(`${field}.namespace`)] : []),
  ];
}

function subjectCauses(subject: unknown, field: string, isNamespaced: boolean): Cause[] {
  const kind = textAt(subject, "kind");
  const group = textAt(subject, "apiGroup");
  const nameCauses = textAt(subject, "name") === "" ? [requiredValue(`${field}.name`)] : [];
  if (!SUBJECT_KINDS.includes(kind)) {
    return [...nameCauses, unsupportedValue(`${field}.kind`, kind, SUBJECT_KINDS)];
  }
  if (kind === "ServiceAccount") {
    return [...nameCauses, ...serviceAccountCauses(subject, field, isNamespaced)];
  }
  return group === RBAC_GROUP
    ? nameCauses
    : [...nameCauses, unsupportedValue(`${field}.apiGroup`, group, [RBAC_GROUP])];
}

function roleRefCauses(binding: KubeObject, kinds: readonly string[]): Cause[] {
  const refField = (key: string) => textAt(binding, "roleRef", key);
  const fault = pathSegmentFault(refField("name"));
  return [
    ...(refField("apiGroup") === RBAC_GROUP
      ? []
      : [unsupportedValue("roleRef.apiGroup", refField("apiGroup"), [RBAC_GROUP])]),
    ...(kinds.includes(refField("kind"))
      ? []
      : [unsupportedValue("roleRef.kind", refField("kind"), kinds)]),
    ...(refField("name") === "" ? [requiredValue("roleRef.name")] : []),
    ...(fault === undefined ? [] : [invalidValue("roleRef.name", refField("name"), fault)]),
  ];
}

function roleBindingCauses(binding: KubeObject): Cause[] {
  return [
    ...roleRefCauses(binding, ["Role", "ClusterRole"]),
    ...asList(binding["subjects"]).flatMap((subject, index) =>
      subjectCauses(subject, `subjects[${String(index)}]`, true),
    ),
  ];
}

function clusterRoleBindingCauses(binding: KubeObject): Cause[] {
  return [
    ...roleRefCauses(binding, ["ClusterRole"]),
    ...asList(binding["subjects"]).flatMap((subject, index) =>
      subjectCauses(subject, `subjects[${String(index)}]`, false),
    ),
  ];
}

/** Rejects changes of roleRef, because a user who may change subjects must not be able to grant another role. */
function roleRefChangeCauses(binding: KubeObject, current: KubeObject): Cause[] {
  if (equalJson(binding["roleRef"], current["roleRef"])) {
    return [];
  }
  const printRefField = (key: string) => JSON.stringify(textAt(binding, "roleRef", key));
  const printedRoleRef = `rbac.RoleRef{APIGroup:${printRefField("apiGroup")}, Kind:${printRefField("kind")}, Name:${printRefField("name")}}`;
  return [invalidGoValue("roleRef", printedRoleRef, "cannot change roleRef")];
}

function defaultBinding(binding: KubeObject): void {
  const roleRef = binding["roleRef"];
  if (isFields(roleRef) && textAt(roleRef, "apiGroup") === "") {
    roleRef["apiGroup"] = RBAC_GROUP;
  }
  for (const subject of asList(binding["subjects"]).filter(isFields)) {
    const isPerson = subject["kind"] === "User" || subject["kind"] === "Group";
    if (isPerson && textAt(subject, "apiGroup") === "") {
      subject["apiGroup"] = RBAC_GROUP;
    }
  }
}

function defineRbacKind(
  options: Pick<KindOptions, "resource" | "kind" | "namespaced">,
  strategy: Partial<Strategy>,
): Kind {
  return defineKind({
    group: "rbac.authorization.k8s.io",
    version: "v1",
    ...options,
    strategy: { validateName: pathSegmentFault, allowsCreateOnUpdate: true, ...strategy },
  });
}

const ROLE_STRATEGY: Partial<Strategy> = {
  columns: [
    { name: "Created At", type: "date", cell: (object) => object.metadata.creationTimestamp },
  ],
};

function subjectsCell(binding: KubeObject, kind: string): string {
  const subjects = asList(binding["subjects"]).filter(
    (subject) => textAt(subject, "kind") === kind,
  );
  const names = subjects.map((subject) => {
    const namespacePrefix = kind === "ServiceAccount" ? `${textAt(subject, "namespace")}/` : "";
    return `${namespacePrefix}${textAt(subject, "name")}`;
  });
  return names.join(", ");
}

function subjectsColumn(name: string, kind: string): Column {
  return { name, type: "string", priority: 1, cell: (binding) => subjectsCell(binding, kind) };
}

const BINDING_STRATEGY: Partial<Strategy> = {
  applyDefaults: defaultBinding,
  validateUpdate: roleRefChangeCauses,
  columns: [
    {
      name: "Role",
      type: "string",
      cell: (object) => `${textAt(object, "roleRef", "kind")}/${textAt(object, "roleRef", "name")}`,
    },
    AGE,
    subjectsColumn("Users", "User"),
    subjectsColumn("Groups", "Group"),
    subjectsColumn("ServiceAccounts", "ServiceAccount"),
  ],
};

export const RBAC_KINDS: readonly Kind[] = [
  defineRbacKind({ resource: "roles", kind: "Role" }, { ...ROLE_STRATEGY, validate: roleCauses }),
  defineRbacKind(
    { resource: "rolebindings", kind: "RoleBinding" },
    { ...BINDING_STRATEGY, validate: roleBindingCauses },
  ),
  defineRbacKind(
    { resource: "clusterroles", kind: "ClusterRole", namespaced: false },
    { ...ROLE_STRATEGY, validate: clusterRoleCauses },
  ),
  defineRbacKind(
    { resource: "clusterrolebindings", kind: "ClusterRoleBinding", namespaced: false },
    { ...BINDING_STRATEGY, validate: clusterRoleBindingCauses },
  ),
];

function defineReview(group: string, resource: string, kind: string): Kind {
  return defineKind({
    group,
    version: "v1",
    resource,
    kind,
    namespaced: resource === "localsubjectaccessreviews",
    verbs: ["create"],
  });
}

export const REVIEW_KINDS: readonly Kind[] = [
  defineReview("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
  defineReview("authentication.k8s.io", "tokenreviews", "TokenReview"),
  defineReview("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview"),
  defineReview("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
  defineReview("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
  defineReview("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
];

export function isReview(kind: Kind): boolean {
  return REVIEW_KINDS.includes(kind);
}
