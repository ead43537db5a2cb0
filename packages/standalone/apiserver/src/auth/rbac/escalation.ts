// SPDX-License-Identifier: Apache-2.0
// Checks that users grant only their own rights. Source: Kubernetes "Privilege escalation prevention and bootstrapping".
import type { Kind } from "../../kinds/kind.ts";
import { notFound, tooLarge } from "../../meta/status.ts";
import { equalJson, textAt, without } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import {
  type AccessAttributes,
  type Authorizer,
  type PolicyRule,
  type RoleRef,
  includesOrWildcard,
  matchesPath,
  matchesResource,
  parseRules,
} from "../authorizer.ts";
import { forbiddenBecause, quoteAll } from "../forbidden.ts";
import type { User } from "../user.ts";
import { RBAC_GROUP, isSystemMaster } from "./rbac.ts";

/** Maximum number of simple rules, which limits memory: a rule with long lists splits into many simple rules. */
const SIMPLE_RULES_MAX = 10_000;
/** Maximum number of comparisons between rules, which limits the time of a check. */
const COMPARISONS_MAX = 10_000_000;

const EMPTY_RULE: Omit<PolicyRule, "verbs"> = {
  apiGroups: [],
  resources: [],
  resourceNames: [],
  nonResourceURLs: [],
};

function splitResources(rule: PolicyRule, verb: string): PolicyRule[] {
  const names = rule.resourceNames.length === 0 ? [[]] : rule.resourceNames.map((name) => [name]);
  return rule.apiGroups.flatMap((group) =>
    rule.resources.flatMap((resource) =>
      names.map((resourceNames) => ({
        verbs: [verb],
        apiGroups: [group],
        resources: [resource],
        resourceNames,
        nonResourceURLs: [],
      })),
    ),
  );
}

/** Splits a rule into simple rules, each with one verb and one resource or path. */
function splitRule(rule: PolicyRule): readonly PolicyRule[] {
  return rule.verbs.flatMap((verb) => [
    ...splitResources(rule, verb),
    ...rule.nonResourceURLs.map((url) => ({
      ...EMPTY_RULE,
      verbs: [verb],
      nonResourceURLs: [url],
    })),
  ]);
}

function countSimpleRules({
  verbs,
  apiGroups,
  resources,
  resourceNames,
  nonResourceURLs,
}: PolicyRule) {
  const scopeCount = apiGroups.length * resources.length * Math.max(1, resourceNames.length);
  return verbs.length * (scopeCount + nonResourceURLs.length);
}

function countNames(rule: PolicyRule): number {
  const { verbs, apiGroups, resources, resourceNames, nonResourceURLs } = rule;
  return [...verbs, ...apiGroups, ...resources, ...resourceNames, ...nonResourceURLs].length;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function checkCount(heldRules: readonly PolicyRule[], requestedRules: readonly PolicyRule[]): void {
  const count = sum(requestedRules.map(countSimpleRules));
  const names = sum(heldRules.map(countNames));
  if (count > SIMPLE_RULES_MAX || count * names > COMPARISONS_MAX) {
    throw tooLarge("the rules are too large to be compared with the user's rights");
  }
}

function coversSimpleRule(heldRule: PolicyRule, simpleRule: PolicyRule): boolean {
  const [verb = ""] = simpleRule.verbs;
  const coversNames =
    heldRule.resourceNames.length === 0 ||
    simpleRule.resourceNames.some((name) => heldRule.resourceNames.includes(name));
  return (
    includesOrWildcard(heldRule.verbs, verb) &&
    simpleRule.apiGroups.every((group) => includesOrWildcard(heldRule.apiGroups, group)) &&
    simpleRule.resources.every((resource) => matchesResource(heldRule.resources, resource)) &&
    simpleRule.nonResourceURLs.every((url) => matchesPath(heldRule.nonResourceURLs, url)) &&
    (simpleRule.nonResourceURLs.length > 0 || coversNames)
  );
}

/** Returns the requested simple rules that `heldRules` does not cover. Throws a StatusError 413 if the rules exceed the limits. */
export function findMissingRules(
  heldRules: readonly PolicyRule[],
  requestedRules: readonly PolicyRule[],
): readonly PolicyRule[] {
  checkCount(heldRules, requestedRules);
  return requestedRules
    .flatMap(splitRule)
    .filter((rule) => !heldRules.some((candidate) => coversSimpleRule(candidate, rule)));
}

function joinVerbs(rules: readonly PolicyRule[]): readonly PolicyRule[] {
  const rulesByScope = Map.groupBy(rules, (rule) => JSON.stringify({ ...rule, verbs: [] }));
  return [...rulesByScope.values()].flatMap((sameScopeRules) => {
    const [firstRule] = sameScopeRules;
    const verbs = [...new Set(sameScopeRules.flatMap((rule) => rule.verbs))];
    return firstRule === undefined ? [] : [{ ...firstRule, verbs }];
  });
}

function printRule(rule: PolicyRule): string {
  const parts: readonly (readonly [string, readonly string[]])[] = [
    ["APIGroups", rule.apiGroups],
    ["Resources", rule.resources],
    ["NonResourceURLs", rule.nonResourceURLs],
    ["ResourceNames", rule.resourceNames],
    ["Verbs", rule.verbs],
  ];
  const nonEmptyParts = parts.filter(([, list]) => list.length > 0);
  return `{${nonEmptyParts.map(([name, list]) => `${name}:${quoteAll(list)}`).join(", ")}}`;
}

export function printRules(rules: readonly PolicyRule[]): string {
  const lines = new Set(joinVerbs(rules).map(printRule));
  return [...lines].sort((left, right) => (left < right ? -1 : 1)).join("\n");
}

export interface RoleWrite {
  readonly kind: Pick<Kind, "group" | "resource" | "version">;
  readonly namespace: string;
  readonly user: User;
  readonly object: KubeObject;
  readonly oldObject: KubeObject | undefined;
}

const ALL_RIGHTS: readonly PolicyRule[] = parseRules([
  { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
  { verbs: ["*"], nonResourceURLs: ["*"] },
]);

function isAllowed(
  write: RoleWrite,
  authorizer: Authorizer,
  overrides: Partial<AccessAttributes>,
): boolean {
  const { kind, namespace, user } = write;
  const { group, version, resource } = kind;
  const attributes = {
    verb: "",
    group,
    version,
    resource,
    subresource: "",
    namespace,
    name: "",
    path: "",
  };
  return authorizer.authorize(user, { ...attributes, ...overrides }).allowed;
}

function reject(write: RoleWrite, reason: string): never {
  const { kind, object } = write;
  throw forbiddenBecause({ ...kind, name: object.metadata.name }, reason);
}

function checkRights(write: RoleWrite, authorizer: Authorizer, rules: readonly PolicyRule[]): void {
  const { user, namespace } = write;
  const heldRules = authorizer.listUserRules(user, namespace);
  const missingRules = findMissingRules(heldRules.rules, rules);
  if (missingRules.length > 0) {
    const errors =
      heldRules.errors.length === 0 ? "" : `; resolution errors: [${heldRules.errors.join(" ")}]`;
    reject(
      write,
      `user ${JSON.stringify(user.name)} (groups=${quoteAll(user.groups)}) is attempting to grant RBAC permissions not currently held:\n${printRules(missingRules)}${errors}`,
    );
  }
}

function checkRole(write: RoleWrite, authorizer: Authorizer): void {
  const { object, oldObject } = write;
  const name = oldObject?.metadata.name ?? "";
  if (isAllowed(write, authorizer, { verb: "escalate", name })) {
    return;
  }
  const rule = object["aggregationRule"];
  const isAggregated = rule !== undefined && rule !== null;
  const heldRules = authorizer.listUserRules(write.user, write.namespace).rules;
  if (isAggregated && findMissingRules(heldRules, ALL_RIGHTS).length > 0) {
    reject(write, "must have cluster-admin privileges to use the aggregationRule");
  }
  checkRights(write, authorizer, parseRules(object["rules"]));
}

function checkBinding(write: RoleWrite, authorizer: Authorizer): void {
  const { object, namespace } = write;
  const roleRef: RoleRef = {
    apiGroup: textAt(object, "roleRef", "apiGroup"),
    kind: textAt(object, "roleRef", "kind"),
    name: textAt(object, "roleRef", "name"),
  };
  const resource = roleRef.kind === "Role" ? "roles" : "clusterroles";
  const bindAttributes = { verb: "bind", resource, group: roleRef.apiGroup, name: roleRef.name };
  if (isAllowed(write, authorizer, bindAttributes)) {
    return;
  }
  const rules = authorizer.listRoleRules(roleRef, namespace);
  if (rules === undefined) {
    throw notFound({ group: RBAC_GROUP, resource, kind: roleRef.kind }, roleRef.name);
  }
  checkRights(write, authorizer, rules);
}

function differsOnlyInOwners(object: KubeObject, oldObject: KubeObject): boolean {
  const toComparable = ({ metadata, ...fields }: KubeObject) => ({
    ...fields,
    metadata: without(
      { ...metadata },
      "ownerReferences",
      "finalizers",
      "managedFields",
      "resourceVersion",
    ),
  });
  return equalJson(toComparable(object), toComparable(oldObject));
}

/** Throws a StatusError 403 if the write grants rights that the user lacks, unless the user has verb `escalate` or `bind` on the role. */
export function checkEscalation(write: RoleWrite, authorizer: Authorizer): void {
  const { kind, user, object, oldObject } = write;
  const isUnchanged = oldObject !== undefined && differsOnlyInOwners(object, oldObject);
  if (kind.group !== RBAC_GROUP || isSystemMaster(user) || isUnchanged) {
    return;
  }
  if (kind.resource.endsWith("bindings")) {
    checkBinding(write, authorizer);
  } else {
    checkRole(write, authorizer);
  }
}
