// SPDX-License-Identifier: Apache-2.0
// Matching of admission requests against a webhook's rules, selectors and match conditions.
import { messageOf } from "@patchbay/core/errors";
import type { Variables } from "../../expressions/condition.ts";
import type { Kind } from "../../kinds/kind.ts";
import type { Registry } from "../../kinds/registry.ts";
import { fieldsOf } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { Store } from "../../storage/store.ts";
import type { AdmissionQuestion } from "../admission.ts";
import { isNamespace, toReview } from "./review.ts";
import type { MatchCondition, Rule, Webhook } from "./webhook.ts";

/** What matching looks at beside the question. */
export interface MatchDeps {
  readonly store: Store;
  readonly registry: Registry;
}

function names(list: readonly string[], value: string): boolean {
  return list.includes("*") || list.includes(value);
}

/** `pods` is the resource alone, `pods/*` the resource and all below it, `*` every resource alone. */
function namesResource(
  resources: readonly string[],
  resource: string,
  subresource: string,
): boolean {
  return resources.some((form) => {
    const [wanted = "", below = ""] = form.split("/");
    return (wanted === "*" || wanted === resource) && (below === "*" || below === subresource);
  });
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

function storedNamespaceLabels(store: Store, name: string): Readonly<Record<string, string>> {
  return labelsOf(store.find({ bucket: "/namespaces", namespace: "", name })?.view());
}

/** A namespace that is written counts with the labels that it will have; anything else with those that its namespace has. */
function matchesNamespace(webhook: Webhook, question: AdmissionQuestion, store: Store): boolean {
  const { kind, object, operation, subresource } = question;
  if (!webhook.selectsNamespaces) {
    return true;
  }
  if (isNamespace(kind)) {
    return webhook.matchesNamespace(
      subresource === "" && operation !== "DELETE"
        ? labelsOf(object)
        : storedNamespaceLabels(store, question.name),
    );
  }
  return (
    !kind.namespaced || webhook.matchesNamespace(storedNamespaceLabels(store, question.namespace))
  );
}

function matchesObject(webhook: Webhook, question: AdmissionQuestion): boolean {
  return (
    !webhook.selectsObjects ||
    [question.object, question.oldObject].some(
      (object) => object !== undefined && webhook.matchesObject(labelsOf(object)),
    )
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
  return [kind, ...others.filter((other) => other.version !== kind.version)];
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

function variablesOf(question: AdmissionQuestion, as: Kind): Variables {
  const { request } = toReview(question, { as, uid: "", version: "v1" });
  const { object, oldObject, ...rest } = fieldsOf(request);
  return { object, oldObject, request: rest };
}

function tryCondition({ name, holds }: MatchCondition, variables: Variables): boolean | Error {
  try {
    return holds(variables);
  } catch (error) {
    return new Error(`matchConditions[${name}]: ${messageOf(error)}`);
  }
}

/** Whether all of them hold; one that does not decides, whatever cannot be told of others. An error where that decides. */
export function meetsConditions(
  { conditions }: Pick<Webhook, "conditions">,
  question: AdmissionQuestion,
  as: Kind,
): boolean | Error {
  if (conditions.length === 0) return true;
  const variables = variablesOf(question, as);
  const results = conditions.map((condition) => tryCondition(condition, variables));
  if (results.includes(false)) return false;
  return results.find((result) => result instanceof Error) ?? true;
}
