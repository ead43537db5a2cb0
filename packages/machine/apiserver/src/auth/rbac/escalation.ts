// SPDX-License-Identifier: Apache-2.0
// May someone give these rights away? Only what they hold, unless they may escalate or bind.
// Source: Kubernetes "Privilege escalation prevention and bootstrapping".
import type { Kind } from "../../kinds/kind.ts";
import { notFound, tooLarge } from "../../meta/status.ts";
import { equalJson, textAt, without } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import {
  type AccessAttributes,
  type Authorizer,
  type PolicyRule,
  type RoleRef,
  namesOne,
  namesPath,
  namesResource,
  parseRules,
} from "../authorizer.ts";
import { forbiddenBecause, quoteAll } from "../forbidden.ts";
import type { User } from "../user.ts";
import { RBAC_GROUP, isMaster } from "./rbac.ts";

/** A few names in each list of a rule are billions of broken-down ones. The largest roles in use have some thousands. */
const BROKEN_DOWN_MAX = 10_000;
/** Names that are compared: each broken-down rule with all that is held. */
const COMPARED_MAX = 10_000_000;

const NOTHING: Omit<PolicyRule, "verbs"> = {
  apiGroups: [],
  resources: [],
  resourceNames: [],
  nonResourceURLs: [],
};

function breakDownResources(rule: PolicyRule, verb: string): PolicyRule[] {
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

/** The rule as rules that each allow one verb on one thing. */
function breakDown(rule: PolicyRule): readonly PolicyRule[] {
  return rule.verbs.flatMap((verb) => [
    ...breakDownResources(rule, verb),
    ...rule.nonResourceURLs.map((url) => ({ ...NOTHING, verbs: [verb], nonResourceURLs: [url] })),
  ]);
}

/** How many rules a rule is broken down into. */
function countOf({ verbs, apiGroups, resources, resourceNames, nonResourceURLs }: PolicyRule) {
  const things = apiGroups.length * resources.length * Math.max(1, resourceNames.length);
  return verbs.length * (things + nonResourceURLs.length);
}

function namesIn(rule: PolicyRule): number {
  const { verbs, apiGroups, resources, resourceNames, nonResourceURLs } = rule;
  return [...verbs, ...apiGroups, ...resources, ...resourceNames, ...nonResourceURLs].length;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** Refuses what cannot be compared in a moment. */
function checkCount(owned: readonly PolicyRule[], wanted: readonly PolicyRule[]): void {
  const count = sum(wanted.map(countOf));
  const names = sum(owned.map(namesIn));
  if (count > BROKEN_DOWN_MAX || count * names > COMPARED_MAX) {
    throw tooLarge("the rules name too much to be compared with what is held");
  }
}

/** Whether one rule allows all that a broken-down one does. */
function coversOne(owned: PolicyRule, wanted: PolicyRule): boolean {
  const [verb = ""] = wanted.verbs;
  const named =
    owned.resourceNames.length === 0 ||
    wanted.resourceNames.some((name) => owned.resourceNames.includes(name));
  return (
    namesOne(owned.verbs, verb) &&
    wanted.apiGroups.every((group) => namesOne(owned.apiGroups, group)) &&
    wanted.resources.every((resource) => namesResource(owned.resources, resource)) &&
    wanted.nonResourceURLs.every((url) => namesPath(owned.nonResourceURLs, url)) &&
    (wanted.nonResourceURLs.length > 0 || named)
  );
}

/** What of `wanted` is not among `owned`, broken down. Throws a StatusError 413 where that is too much. */
export function missingRules(
  owned: readonly PolicyRule[],
  wanted: readonly PolicyRule[],
): readonly PolicyRule[] {
  checkCount(owned, wanted);
  return wanted
    .flatMap(breakDown)
    .filter((rule) => !owned.some((candidate) => coversOne(candidate, rule)));
}

/** Joins broken-down rules about one thing into one rule with all their verbs. */
function compact(rules: readonly PolicyRule[]): readonly PolicyRule[] {
  const byThing = Map.groupBy(rules, (rule) => JSON.stringify({ ...rule, verbs: [] }));
  return [...byThing.values()].flatMap((same) => {
    const [first] = same;
    const verbs = [...new Set(same.flatMap((rule) => rule.verbs))];
    return first === undefined ? [] : [{ ...first, verbs }];
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
  const shown = parts.filter(([, list]) => list.length > 0);
  return `{${shown.map(([name, list]) => `${name}:${quoteAll(list)}`).join(", ")}}`;
}

/** Rules for people, each on a line, sorted. */
export function printRules(rules: readonly PolicyRule[]): string {
  const lines = new Set(compact(rules).map(printRule));
  return [...lines].sort((left, right) => (left < right ? -1 : 1)).join("\n");
}

/** A write of a role or binding. */
export interface Grant {
  readonly kind: Pick<Kind, "group" | "resource" | "version">;
  readonly namespace: string;
  readonly user: User;
  readonly object: KubeObject;
  /** Absent: the object is new. */
  readonly oldObject: KubeObject | undefined;
}

const FULL: readonly PolicyRule[] = parseRules([
  { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
  { verbs: ["*"], nonResourceURLs: ["*"] },
]);

function may(grant: Grant, authorizer: Authorizer, wanted: Partial<AccessAttributes>): boolean {
  const { kind, namespace, user } = grant;
  const { group, version, resource } = kind;
  const asked = {
    verb: "",
    group,
    version,
    resource,
    subresource: "",
    namespace,
    name: "",
    path: "",
  };
  return authorizer.authorize(user, { ...asked, ...wanted }).allowed;
}

function refuse(grant: Grant, why: string): never {
  const { kind, object } = grant;
  throw forbiddenBecause({ ...kind, name: object.metadata.name }, why);
}

function checkHeld(grant: Grant, authorizer: Authorizer, rules: readonly PolicyRule[]): void {
  const { user, namespace } = grant;
  const held = authorizer.rulesFor(user, namespace);
  const missing = missingRules(held.rules, rules);
  if (missing.length > 0) {
    const errors =
      held.errors.length === 0 ? "" : `; resolution errors: [${held.errors.join(" ")}]`;
    refuse(
      grant,
      `user ${JSON.stringify(user.name)} (groups=${quoteAll(user.groups)}) is attempting to grant RBAC permissions not currently held:\n${printRules(missing)}${errors}`,
    );
  }
}

function checkRole(grant: Grant, authorizer: Authorizer): void {
  const { object, oldObject } = grant;
  const name = oldObject?.metadata.name ?? "";
  if (may(grant, authorizer, { verb: "escalate", name })) {
    return;
  }
  const rule = object["aggregationRule"];
  const gathers = rule !== undefined && rule !== null;
  const held = authorizer.rulesFor(grant.user, grant.namespace).rules;
  if (gathers && missingRules(held, FULL).length > 0) {
    refuse(grant, "must have cluster-admin privileges to use the aggregationRule");
  }
  checkHeld(grant, authorizer, parseRules(object["rules"]));
}

function checkBinding(grant: Grant, authorizer: Authorizer): void {
  const { object, namespace } = grant;
  const roleRef: RoleRef = {
    apiGroup: textAt(object, "roleRef", "apiGroup"),
    kind: textAt(object, "roleRef", "kind"),
    name: textAt(object, "roleRef", "name"),
  };
  const resource = roleRef.kind === "Role" ? "roles" : "clusterroles";
  const wanted = { verb: "bind", resource, group: roleRef.apiGroup, name: roleRef.name };
  if (may(grant, authorizer, wanted)) {
    return;
  }
  const rules = authorizer.rulesOf(roleRef, namespace);
  if (rules === undefined) {
    throw notFound({ group: RBAC_GROUP, resource, kind: roleRef.kind }, roleRef.name);
  }
  checkHeld(grant, authorizer, rules);
}

/** Whether only what the garbage collector needs differs: owners, finalizers, and what follows every write. */
function isSameBesideOwners(object: KubeObject, oldObject: KubeObject): boolean {
  const rest = ({ metadata, ...fields }: KubeObject) => ({
    ...fields,
    metadata: without(
      { ...metadata },
      "ownerReferences",
      "finalizers",
      "managedFields",
      "resourceVersion",
    ),
  });
  return equalJson(rest(object), rest(oldObject));
}

/** Throws a StatusError 403 where the write would give away what its user does not hold. */
export function checkEscalation(grant: Grant, authorizer: Authorizer): void {
  const { kind, user, object, oldObject } = grant;
  const unchanged = oldObject !== undefined && isSameBesideOwners(object, oldObject);
  if (kind.group !== RBAC_GROUP || isMaster(user) || unchanged) {
    return;
  }
  if (kind.resource.endsWith("bindings")) {
    checkBinding(grant, authorizer);
  } else {
    checkRole(grant, authorizer);
  }
}
