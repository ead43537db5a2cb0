// SPDX-License-Identifier: Apache-2.0
// Which roles and bindings are refused, and how that is said. Source: Kubernetes rbac validation.
import type { Cause } from "../../meta/status.ts";
import { invalidValue, requiredValue, unsupportedValue } from "../../meta/causes.ts";
import { pathSegmentFault, subdomainFault } from "../../meta/names.ts";
import { equalJson, isFields, listOf, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";

const GROUP = "rbac.authorization.k8s.io";
const SUBJECT_KINDS: readonly string[] = ["ServiceAccount", "User", "Group"];

/** A cause whose value is printed as Go prints it. */
function goValue(field: string, value: string, why: string): Cause {
  return { reason: "FieldValueInvalid", field, message: `Invalid value: ${value}: ${why}` };
}

function isEmpty(rule: unknown, key: string): boolean {
  return listOf(valueAt(rule, key)).length === 0;
}

function pathCauses(rule: unknown, field: string, isNamespaced: boolean): Cause[] {
  const urls = listOf(valueAt(rule, "nonResourceURLs")).map((url) => JSON.stringify(url));
  const printed = `[]string{${urls.join(", ")}}`;
  const at = `${field}.nonResourceURLs`;
  const mixed = ["apiGroups", "resources", "resourceNames"].some((key) => !isEmpty(rule, key));
  const inNamespace = "namespaced rules cannot apply to non-resource URLs";
  const both = "rules cannot apply to both regular resources and non-resource URLs";
  return [
    ...(isNamespaced ? [goValue(at, printed, inNamespace)] : []),
    ...(mixed ? [goValue(at, printed, both)] : []),
  ];
}

function ruleCauses(rule: unknown, field: string, isNamespaced: boolean): Cause[] {
  const needed = (key: string, why: string) =>
    isEmpty(rule, key) ? [requiredValue(`${field}.${key}`, why)] : [];
  const verbs = needed("verbs", "verbs must contain at least one value");
  if (!isEmpty(rule, "nonResourceURLs")) {
    return [...verbs, ...pathCauses(rule, field, isNamespaced)];
  }
  return [
    ...verbs,
    ...needed("apiGroups", "resource rules must supply at least one api group"),
    ...needed("resources", "resource rules must supply at least one resource"),
  ];
}

/** Causes for which a role of a namespace is refused. */
export function roleCauses(role: KubeObject): Cause[] {
  return listOf(role["rules"]).flatMap((rule, index) =>
    ruleCauses(rule, `rules[${String(index)}]`, true),
  );
}

/** Causes for which a role of the cluster is refused. */
export function clusterRoleCauses(role: KubeObject): Cause[] {
  const rule = role["aggregationRule"];
  const aimless = isFields(rule) && isEmpty(rule, "clusterRoleSelectors");
  const why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
  return [
    ...listOf(role["rules"]).flatMap((one, index) =>
      ruleCauses(one, `rules[${String(index)}]`, false),
    ),
    ...(aimless ? [requiredValue("aggregationRule.clusterRoleSelectors", why)] : []),
  ];
}

function accountCauses(subject: unknown, field: string, isNamespaced: boolean): Cause[] {
  const name = textAt(subject, "name");
  const group = textAt(subject, "apiGroup");
  const fault = name === "" ? undefined : subdomainFault(name);
  const homeless = !isNamespaced && textAt(subject, "namespace") === "";
  return [
    ...(fault === undefined ? [] : [invalidValue(`${field}.name`, name, fault)]),
    ...(group === "" ? [] : [unsupportedValue(`${field}.apiGroup`, group, [""])]),
    ...(homeless ? [requiredValue(`${field}.namespace`)] : []),
  ];
}

function subjectCauses(subject: unknown, field: string, isNamespaced: boolean): Cause[] {
  const kind = textAt(subject, "kind");
  const group = textAt(subject, "apiGroup");
  const nameless = textAt(subject, "name") === "" ? [requiredValue(`${field}.name`)] : [];
  if (!SUBJECT_KINDS.includes(kind)) {
    return [...nameless, unsupportedValue(`${field}.kind`, kind, SUBJECT_KINDS)];
  }
  if (kind === "ServiceAccount") {
    return [...nameless, ...accountCauses(subject, field, isNamespaced)];
  }
  return group === GROUP
    ? nameless
    : [...nameless, unsupportedValue(`${field}.apiGroup`, group, [GROUP])];
}

function roleRefCauses(binding: KubeObject, kinds: readonly string[]): Cause[] {
  const of = (key: string) => textAt(binding, "roleRef", key);
  const fault = pathSegmentFault(of("name"));
  return [
    ...(of("apiGroup") === GROUP
      ? []
      : [unsupportedValue("roleRef.apiGroup", of("apiGroup"), [GROUP])]),
    ...(kinds.includes(of("kind")) ? [] : [unsupportedValue("roleRef.kind", of("kind"), kinds)]),
    ...(of("name") === "" ? [requiredValue("roleRef.name")] : []),
    ...(fault === undefined ? [] : [invalidValue("roleRef.name", of("name"), fault)]),
  ];
}

/** Causes for which a binding in a namespace is refused. */
export function roleBindingCauses(binding: KubeObject): Cause[] {
  return [
    ...roleRefCauses(binding, ["Role", "ClusterRole"]),
    ...listOf(binding["subjects"]).flatMap((subject, index) =>
      subjectCauses(subject, `subjects[${String(index)}]`, true),
    ),
  ];
}

/** Causes for which a binding of the cluster is refused. */
export function clusterRoleBindingCauses(binding: KubeObject): Cause[] {
  return [
    ...roleRefCauses(binding, ["ClusterRole"]),
    ...listOf(binding["subjects"]).flatMap((subject, index) =>
      subjectCauses(subject, `subjects[${String(index)}]`, false),
    ),
  ];
}

/** A binding keeps its role: whoever may change its subjects may not thereby give another one. */
export function roleRefChange(binding: KubeObject, current: KubeObject): Cause[] {
  if (equalJson(binding["roleRef"], current["roleRef"])) {
    return [];
  }
  const of = (key: string) => JSON.stringify(textAt(binding, "roleRef", key));
  const printed = `rbac.RoleRef{APIGroup:${of("apiGroup")}, Kind:${of("kind")}, Name:${of("name")}}`;
  return [goValue("roleRef", printed, "cannot change roleRef")];
}

/** Completes the groups that roleRef and subjects leave out. Changes `binding`. */
export function defaultBinding(binding: KubeObject): void {
  const roleRef = binding["roleRef"];
  if (isFields(roleRef) && textAt(roleRef, "apiGroup") === "") {
    roleRef["apiGroup"] = GROUP;
  }
  for (const subject of listOf(binding["subjects"]).filter(isFields)) {
    const isPerson = subject["kind"] === "User" || subject["kind"] === "Group";
    if (isPerson && textAt(subject, "apiGroup") === "") {
      subject["apiGroup"] = GROUP;
    }
  }
}
