// SPDX-License-Identifier: Apache-2.0
// Authorization interface, and the policy rules that roles consist of.
import { listOf, valueAt } from "../objects/json.ts";
import type { User } from "./user.ts";

/** What someone wants to do. Source: Kubernetes authorization.Attributes. */
export interface AccessAttributes {
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  /** Set for paths that are no resources. */
  readonly path: string;
}

/** The answer, with a reason for people. */
export interface AccessDecision {
  readonly allowed: boolean;
  readonly reason: string;
  /** No role allows it: the node's pods need it. */
  readonly isByPods?: boolean;
}

/** The one place where rights are decided. */
export type Authorize = (user: User, attributes: AccessAttributes) => AccessDecision;

/** Rules that apply to somebody. */
export interface HeldRules {
  readonly rules: readonly PolicyRule[];
  /** Why there may be more of them; empty where these are all. */
  readonly errors: readonly string[];
}

/** Who may do what, and why. */
export interface Authorizer {
  readonly authorize: Authorize;
  /** All rules that apply to the user in a namespace; in the empty one, those that apply everywhere. */
  rulesFor(user: User, namespace: string): HeldRules;
  /** Rules of the role that a binding in the namespace names; undefined where there is no such role. */
  rulesOf(roleRef: RoleRef, namespace: string): readonly PolicyRule[] | undefined;
}

/** Which role a binding gives. Source: rbac/v1 RoleRef. */
export interface RoleRef {
  readonly apiGroup: string;
  readonly kind: string;
  readonly name: string;
}

/** One rule; all its lists must match, and each list by any member. */
export interface PolicyRule {
  readonly verbs: readonly string[];
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  /** Empty: all names, and requests without one. */
  readonly resourceNames: readonly string[];
  readonly nonResourceURLs: readonly string[];
}

const ALL = "*";

function textsAt(value: unknown, key: string): readonly string[] {
  return listOf(valueAt(value, key)).map(String);
}

/** Reads the rules of a role. */
export function parseRules(rules: unknown): readonly PolicyRule[] {
  return listOf(rules).map((rule) => ({
    verbs: textsAt(rule, "verbs"),
    apiGroups: textsAt(rule, "apiGroups"),
    resources: textsAt(rule, "resources"),
    resourceNames: textsAt(rule, "resourceNames"),
    nonResourceURLs: textsAt(rule, "nonResourceURLs"),
  }));
}

/** Whether a list of verbs or groups names one. */
export function namesOne(list: readonly string[], wanted: string): boolean {
  return list.includes(ALL) || list.includes(wanted);
}

/** Whether a list of resources names one. A subresource is no part of its resource; a star before the slash names that of all. */
export function namesResource(list: readonly string[], resource: string): boolean {
  const slash = resource.indexOf("/");
  return namesOne(list, resource) || (slash >= 0 && list.includes(`*${resource.slice(slash)}`));
}

/** Whether a list of paths names one; a star at the end stands for everything below. */
export function namesPath(list: readonly string[], path: string): boolean {
  return list.some(
    (known) => known === path || (known.endsWith(ALL) && path.startsWith(known.slice(0, -1))),
  );
}

/** Whether the rule allows it. */
export function ruleAllows(rule: PolicyRule, attributes: AccessAttributes): boolean {
  const { verb, group, resource, subresource, name, path } = attributes;
  if (!namesOne(rule.verbs, verb)) {
    return false;
  }
  if (path !== "") {
    return namesPath(rule.nonResourceURLs, path);
  }
  const whole = subresource === "" ? resource : `${resource}/${subresource}`;
  return (
    namesOne(rule.apiGroups, group) &&
    namesResource(rule.resources, whole) &&
    (rule.resourceNames.length === 0 || rule.resourceNames.includes(name))
  );
}
