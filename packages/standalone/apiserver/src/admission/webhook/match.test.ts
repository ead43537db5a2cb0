// SPDX-License-Identifier: Apache-2.0
// Which resources does a rule name?
import { expect, test } from "vitest";
import { compileCondition } from "../../expressions/condition.ts";
import { defineKind } from "../../kinds/kind.ts";
import type { AdmissionRequest } from "../admission.ts";
import { type MatchDeps, findMatchingKind, evaluateConditions } from "./match.ts";
import type { Webhook } from "./webhook.ts";

const PODS = defineKind({ group: "", version: "v1", resource: "pods", kind: "Pod" });
const NODES = defineKind({
  group: "",
  version: "v1",
  resource: "nodes",
  kind: "Node",
  namespaced: false,
});

function webhookFor(resources: readonly string[], scope: string): Webhook {
  const rule = { operations: ["*"], groups: [""], versions: ["v1"], resources, scope };
  return {
    name: "hook.test.io",
    isMutating: false,
    clientConfig: {},
    rules: [rule],
    failsClosed: true,
    matchesEquivalent: false,
    allowsDryRun: true,
    timeoutMs: 1000,
    isReinvocable: false,
    reviewVersion: "v1",
    selectsNamespaces: false,
    matchesNamespace: () => false,
    selectsObjects: false,
    matchesObject: () => false,
    conditions: [],
  };
}

test.each([
  { resources: ["pods"], subresource: "", want: true },
  { resources: ["pods"], subresource: "status", want: false },
  { resources: ["pods/status"], subresource: "status", want: true },
  { resources: ["pods/status"], subresource: "", want: false },
  { resources: ["pods/*"], subresource: "", want: true },
  { resources: ["pods/*"], subresource: "status", want: true },
  { resources: ["*"], subresource: "", want: true },
  { resources: ["*"], subresource: "status", want: false },
  { resources: ["*/status"], subresource: "status", want: true },
  { resources: ["*/*"], subresource: "", want: true },
  { resources: ["*/*"], subresource: "status", want: true },
  { resources: ["nodes", "nodes/*"], subresource: "", want: false },
])("$resources matches pods/$subresource: $want", ({ resources, subresource, want }) => {
  const question = { kind: PODS, subresource, operation: "UPDATE" } as AdmissionRequest;
  // Neither selector nor equivalence is asked for: nothing else is looked at.
  const found = findMatchingKind(webhookFor(resources, "*"), question, {} as MatchDeps);
  expect(found !== undefined).toBe(want);
});

test.each([
  { kind: PODS, scope: "Namespaced", want: true },
  { kind: PODS, scope: "Cluster", want: false },
  { kind: NODES, scope: "Cluster", want: true },
  { kind: NODES, scope: "Namespaced", want: false },
])("scope $scope matches $kind.kind: $want", ({ kind, scope, want }) => {
  const question = { kind, subresource: "", operation: "CREATE" } as AdmissionRequest;
  const found = findMatchingKind(webhookFor(["*"], scope), question, {} as MatchDeps);
  expect(found !== undefined).toBe(want);
});

/** Labels of namespaces that are stored. */
const STORED: Readonly<Record<string, Record<string, string>>> = { ns: { a: "stored" } };
const STORE = {
  find: ({ name }: { readonly name: string }) => {
    const labels = STORED[name];
    return labels && { view: () => ({ metadata: { name, labels } }) };
  },
};
const NAMESPACES = defineKind({
  group: "",
  version: "v1",
  resource: "namespaces",
  kind: "Namespace",
  namespaced: false,
});

test.each<{ name: string; change: Partial<AdmissionRequest>; want: string | undefined }>([
  { name: "a pod has the labels of its namespace", change: {}, want: "stored" },
  { name: "a namespace is unknown", change: { namespace: "none" }, want: "" },
  { name: "a node has no namespace", change: { kind: NODES }, want: undefined },
  {
    name: "a new namespace has its own labels",
    change: { kind: NAMESPACES, operation: "CREATE" },
    want: "own",
  },
  {
    name: "a namespace that is deleted has its stored labels",
    change: { kind: NAMESPACES, operation: "DELETE" },
    want: "stored",
  },
  {
    name: "a subresource of a namespace has its stored labels",
    change: { kind: NAMESPACES, subresource: "finalize" },
    want: "stored",
  },
])("namespace selector: $name", ({ change, want }) => {
  const selected: string[] = [];
  const webhook: Webhook = {
    ...webhookFor(["*", "*/*"], "*"),
    selectsNamespaces: true,
    matchesNamespace: ({ a = "" }) => {
      selected.push(a);
      return false;
    },
  };
  const question: AdmissionRequest = {
    kind: PODS,
    subresource: "",
    operation: "UPDATE",
    namespace: "ns",
    name: "ns",
    object: { apiVersion: "v1", kind: "X", metadata: { name: "x", labels: { a: "own" } } },
    oldObject: undefined,
    options: {},
    user: { name: "u", groups: [] },
    dryRun: false,
    warnings: [],
    ...change,
  };
  // Equivalent versions are not looked for: only the store is read.
  const found = findMatchingKind(webhook, question, { store: STORE } as unknown as MatchDeps);
  expect(selected).toEqual(want === undefined ? [] : [want]);
  expect(found !== undefined).toBe(want === undefined);
});

const CHOSEN = { apiVersion: "v1", kind: "Pod", metadata: { name: "x", labels: { a: "chosen" } } };
const OTHER = { apiVersion: "v1", kind: "Pod", metadata: { name: "x" } };

test.each([
  { name: "the new object", object: CHOSEN, oldObject: undefined, want: true },
  { name: "the new object of a change", object: CHOSEN, oldObject: OTHER, want: true },
  { name: "the old object of an update", object: OTHER, oldObject: CHOSEN, want: true },
  { name: "the object that is deleted", object: undefined, oldObject: CHOSEN, want: true },
  { name: "neither", object: OTHER, oldObject: OTHER, want: false },
  { name: "no object at all", object: undefined, oldObject: undefined, want: false },
])("object selector with labels of $name: $want", ({ object, oldObject, want }) => {
  const webhook: Webhook = {
    ...webhookFor(["pods"], "*"),
    selectsObjects: true,
    matchesObject: ({ a }) => a === "chosen",
  };
  const question = { kind: PODS, subresource: "", object, oldObject } as AdmissionRequest;
  // Neither namespaces nor versions are looked up.
  const found = findMatchingKind(webhook, question, {} as MatchDeps);
  expect(found !== undefined).toBe(want);
});

const MAPS_V2 = { ...PODS, group: "a.io", version: "v2", resource: "maps" };
const MAPS_V1 = { ...MAPS_V2, version: "v1" };
/** Kinds that a rule for version `v1` names, and that are not equivalent. */
const UNLIKE = [
  { ...MAPS_V1, group: "b.io" },
  { ...MAPS_V1, resource: "charts" },
];

test.each([
  { name: "another version", kind: MAPS_V2, kinds: [MAPS_V1], equivalent: true, want: MAPS_V1 },
  {
    name: "its own version first",
    kind: MAPS_V1,
    kinds: [{ ...MAPS_V1, kind: "Again" }, MAPS_V2],
    equivalent: true,
    want: MAPS_V1,
  },
  { name: "no other kind", kind: MAPS_V2, kinds: UNLIKE, equivalent: true, want: undefined },
  {
    name: "the exact version only",
    kind: MAPS_V2,
    kinds: [MAPS_V1],
    equivalent: false,
    want: undefined,
  },
])("a rule for a version matches $name", ({ kind, kinds, equivalent, want }) => {
  const base = webhookFor(["*"], "*");
  const rules = base.rules.map((rule) => ({ ...rule, groups: ["*"] }));
  const webhook: Webhook = { ...base, rules, matchesEquivalent: equivalent };
  const question = { kind, subresource: "", operation: "UPDATE" } as AdmissionRequest;
  const registry = { list: () => [MAPS_V2, ...kinds] };
  const found = findMatchingKind(webhook, question, { registry } as unknown as MatchDeps);
  expect(found).toBe(want);
});

const QUESTION: AdmissionRequest = {
  kind: PODS,
  subresource: "status",
  operation: "UPDATE",
  namespace: "ns",
  name: "one",
  object: { apiVersion: "v1", kind: "Pod", metadata: { name: "one" }, spec: { a: 1 } },
  oldObject: { apiVersion: "v1", kind: "Pod", metadata: { name: "one" }, spec: { a: 2 } },
  options: {},
  user: { name: "alice", groups: ["people"] },
  dryRun: false,
  warnings: [],
};

function ask(...expressions: readonly string[]): boolean | Error {
  const conditions = expressions.map((expression, index) => ({
    name: `c${String(index)}`,
    evaluate: compileCondition(expression),
  }));
  return evaluateConditions({ conditions }, QUESTION, PODS);
}

test.each([
  { name: "no condition", expressions: [], want: true },
  {
    name: "a condition that is met",
    expressions: ["object.spec.a < oldObject.spec.a"],
    want: true,
  },
  {
    name: "two conditions, with one unmet",
    expressions: ["true", "object.spec.a == 2"],
    want: false,
  },
  {
    name: "conditions on user, operation and resource",
    expressions: [
      "request.userInfo.username == 'alice' && 'people' in request.userInfo.groups",
      "request.operation == 'UPDATE' && request.subResource == 'status' && !request.dryRun",
      "request.resource.resource == 'pods' && request.name == 'one' && request.namespace == 'ns'",
      "!has(request.object)",
    ],
    want: true,
  },
  {
    name: "an unmet condition beside a failing condition",
    expressions: ["object.none", "false"],
    want: false,
  },
])("$name: $want", ({ expressions, want }) => {
  expect(ask(...expressions)).toBe(want);
});

test("reports a condition that fails to evaluate if the other conditions hold", () => {
  const met = ask("true", "object.none == 1");
  expect(met).toBeInstanceOf(Error);
  expect(String(met)).toContain("matchConditions[c1]");
});
