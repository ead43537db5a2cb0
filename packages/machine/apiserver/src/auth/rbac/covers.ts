// SPDX-License-Identifier: Apache-2.0
// Does someone hold what they want to give away? Source: Kubernetes "Privilege escalation prevention".
import { type PolicyRule, namesOne, namesPath, namesResource } from "./policy-rule.ts";

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

/** What of `wanted` is not among `owned`, broken down. */
export function missingRules(
  owned: readonly PolicyRule[],
  wanted: readonly PolicyRule[],
): readonly PolicyRule[] {
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

/** A list as Go prints it with %q. */
export function quoteAll(texts: readonly string[]): string {
  return `[${texts.map((text) => JSON.stringify(text)).join(" ")}]`;
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
