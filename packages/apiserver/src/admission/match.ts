// SPDX-License-Identifier: Apache-2.0
// Does a webhook want to hear of a write, and about which version of the resource?
import type { Kind } from "../kinds/kind.ts";
import type { Registry } from "../kinds/registry.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { AdmissionQuestion } from "./admission.ts";
import type { Rule, Webhook } from "./webhook.ts";

/** What matching looks at beside the question. */
export interface MatchDeps {
  readonly store: Store;
  readonly registry: Registry;
}

function names(list: readonly string[], value: string): boolean {
  return list.includes("*") || list.includes(value);
}

function namesResource(
  resources: readonly string[],
  resource: string,
  subresource: string,
): boolean {
  if (subresource === "") {
    return names(resources, resource) || resources.includes("*/*");
  }
  const forms = [`${resource}/${subresource}`, `${resource}/*`, `*/${subresource}`, "*/*"];
  return forms.some((form) => resources.includes(form));
}

function matchesRule(rule: Rule, question: AdmissionQuestion, kind: Kind): boolean {
  const scope = kind.namespaced ? "Namespaced" : "Cluster";
  return (
    names(rule.operations, question.operation) &&
    names(rule.groups, kind.group) &&
    names(rule.versions, kind.version) &&
    namesResource(rule.resources, kind.resource, question.subresource) &&
    (rule.scope === "*" || rule.scope === scope)
  );
}

function labelsOf(object: KubeObject | undefined): Readonly<Record<string, string>> {
  return object?.metadata.labels ?? {};
}

function matchesNamespace(webhook: Webhook, question: AdmissionQuestion, store: Store): boolean {
  if (question.kind.kind === "Namespace" && question.kind.group === "") {
    return webhook.matchesNamespace(labelsOf(question.object ?? question.oldObject));
  }
  if (!question.kind.namespaced) {
    return true;
  }
  const address = { bucket: "/namespaces", namespace: "", name: question.namespace };
  return webhook.matchesNamespace(labelsOf(store.find(address)?.view()));
}

function matchesObject(webhook: Webhook, question: AdmissionQuestion): boolean {
  return (
    (question.object !== undefined && webhook.matchesObject(labelsOf(question.object))) ||
    (question.oldObject !== undefined && webhook.matchesObject(labelsOf(question.oldObject)))
  );
}

function versionsOf(
  question: AdmissionQuestion,
  webhook: Webhook,
  registry: Registry,
): readonly Kind[] {
  const { kind } = question;
  if (!webhook.matchesEquivalent) {
    return [kind];
  }
  const others = registry
    .list()
    .filter((other) => other.group === kind.group && other.resource === kind.resource);
  return [kind, ...others.filter((other) => other !== kind)];
}

/** The kind in the version that the webhook wants; undefined where it does not want to hear of it. */
export function matchingKind(
  webhook: Webhook,
  question: AdmissionQuestion,
  deps: MatchDeps,
): Kind | undefined {
  const wanted = versionsOf(question, webhook, deps.registry).find((kind) =>
    webhook.rules.some((rule) => matchesRule(rule, question, kind)),
  );
  return wanted !== undefined &&
    matchesNamespace(webhook, question, deps.store) &&
    matchesObject(webhook, question)
    ? wanted
    : undefined;
}
