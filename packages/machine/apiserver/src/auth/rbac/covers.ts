// SPDX-License-Identifier: Apache-2.0
// Does someone hold what they want to give away? Source: Kubernetes "Privilege escalation prevention".
import { tooLarge } from "../../meta/status.ts";
import { type PolicyRule, namesOne, namesPath, namesResource } from "./policy-rule.ts";

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
