// SPDX-License-Identifier: Apache-2.0
// What one rule of a role allows. Source: rbac/v1 PolicyRule.
import { listOf, valueAt } from "../../objects/json.ts";
import type { AccessAttributes } from "../user.ts";

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
