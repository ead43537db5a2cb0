// SPDX-License-Identifier: Apache-2.0
import { asList, valueAt } from "../objects/json.ts";
import type { User } from "./user.ts";

/** Source: Kubernetes authorization.Attributes. */
export interface AccessAttributes {
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  /** Set for non-resource paths only. */
  readonly path: string;
}

export interface AccessDecision {
  readonly allowed: boolean;
  readonly reason: string;
  /** The node authorizer allows it, because the node's pods need it; no role allows it. */
  readonly isAllowedByPods?: boolean;
}

export type Authorize = (user: User, attributes: AccessAttributes) => AccessDecision;

export interface UserRules {
  readonly rules: readonly PolicyRule[];
  /** Why rules may be missing. */
  readonly errors: readonly string[];
}

export interface Authorizer {
  readonly authorize: Authorize;
  /** An empty namespace means cluster-wide rules only. */
  listUserRules(user: User, namespace: string): UserRules;
  /** Returns undefined if the role does not exist. */
  listRoleRules(roleRef: RoleRef, namespace: string): readonly PolicyRule[] | undefined;
}

/** Source: rbac/v1 RoleRef. */
export interface RoleRef {
  readonly apiGroup: string;
  readonly kind: string;
  readonly name: string;
}

/** All lists must match, each by any item. Source: rbac/v1 PolicyRule. */
export interface PolicyRule {
  readonly verbs: readonly string[];
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  /** An empty list matches all names, and requests without a name. */
  readonly resourceNames: readonly string[];
  readonly nonResourceURLs: readonly string[];
}

const WILDCARD = "*";

function stringsAt(value: unknown, key: string): readonly string[] {
  return asList(valueAt(value, key)).map(String);
}

export function parseRules(rules: unknown): readonly PolicyRule[] {
  return asList(rules).map((rule) => ({
    verbs: stringsAt(rule, "verbs"),
    apiGroups: stringsAt(rule, "apiGroups"),
    resources: stringsAt(rule, "resources"),
    resourceNames: stringsAt(rule, "resourceNames"),
    nonResourceURLs: stringsAt(rule, "nonResourceURLs"),
  }));
}

export function includesOrWildcard(list: readonly string[], item: string): boolean {
  return list.includes(WILDCARD) || list.includes(item);
}

/** `pods` does not match `pods/log`; a star before the slash matches it for every resource. */
export function matchesResource(list: readonly string[], resource: string): boolean {
  const slash = resource.indexOf("/");
  return (
    includesOrWildcard(list, resource) || (slash >= 0 && list.includes(`*${resource.slice(slash)}`))
  );
}

/** A trailing `*` matches any suffix. */
export function matchesPath(list: readonly string[], path: string): boolean {
  return list.some(
    (pattern) =>
      pattern === path || (pattern.endsWith(WILDCARD) && path.startsWith(pattern.slice(0, -1))),
  );
}

export function ruleAllows(rule: PolicyRule, attributes: AccessAttributes): boolean {
  const { verb, group, resource, subresource, name, path } = attributes;
  if (!includesOrWildcard(rule.verbs, verb)) {
    return false;
  }
  if (path !== "") {
    return matchesPath(rule.nonResourceURLs, path);
  }
  const qualifiedResource = subresource === "" ? resource : `${resource}/${subresource}`;
  return (
    includesOrWildcard(rule.apiGroups, group) &&
    matchesResource(rule.resources, qualifiedResource) &&
    (rule.resourceNames.length === 0 || rule.resourceNames.includes(name))
  );
}
