// SPDX-License-Identifier: Apache-2.0
import { asList, valueAt } from "../objects/json.ts";
import type { User } from "./user.ts";

/** Attributes of a request to authorize. Source: Kubernetes authorization.Attributes. */
export interface AccessAttributes {
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  /** Path of a non-resource request; otherwise empty. */
  readonly path: string;
  readonly isMetadataOnly?: boolean;
}

export interface AccessDecision {
  readonly allowed: boolean;
  readonly reason: string;
  /** Whether RBAC denies the request but the node authorizer allows the request. */
  readonly isAllowedByPods?: boolean;
}

export type Authorize = (user: User, attributes: AccessAttributes) => AccessDecision;

export interface UserRules {
  readonly rules: readonly PolicyRule[];
  /** Errors for bindings to roles that do not exist. If there are any, `rules` is incomplete. */
  readonly errors: readonly string[];
}

export interface Authorizer {
  readonly authorize: Authorize;
  /** Returns the user's rules. An empty namespace means cluster-wide rules only. */
  listUserRules(user: User, namespace: string): UserRules;
  /** Returns the role's rules, or undefined if the role does not exist. */
  listRoleRules(roleRef: RoleRef, namespace: string): readonly PolicyRule[] | undefined;
}

/** Reference from a binding to a role. Source: rbac/v1 RoleRef. */
export interface RoleRef {
  readonly apiGroup: string;
  readonly kind: string;
  readonly name: string;
}

/** A rule allows a request if `verbs` and either the resource lists or `nonResourceURLs` match. Source: rbac/v1 PolicyRule. */
export interface PolicyRule {
  readonly verbs: readonly string[];
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  /** Names of objects. An empty list matches all names, and requests without a name. */
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

/** Returns whether the list matches the resource. `pods` does not match the subresource `pods/log`. */
export function matchesResource(list: readonly string[], resource: string): boolean {
  const slashIndex = resource.indexOf("/");
  return (
    includesOrWildcard(list, resource) ||
    (slashIndex >= 0 && list.includes(`*${resource.slice(slashIndex)}`))
  );
}

/** Returns whether a pattern matches the path. A trailing `*` matches any suffix. */
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
