// SPDX-License-Identifier: Apache-2.0
import { messageOf } from "@patchbay/base";
import type { Variables } from "../../expressions/condition.ts";
import type { Kind } from "../../kinds/kind.ts";
import type { Registry } from "../../kinds/registry.ts";
import { asFields } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { Store } from "../../storage/store.ts";
import type { AdmissionRequest } from "../admission.ts";
import { isNamespace, toReview } from "./review.ts";
import type { MatchCondition, Rule, Webhook } from "./webhook.ts";

export interface MatchDeps {
  readonly store: Store;
  readonly registry: Registry;
}

function includesOrWildcard(list: readonly string[], value: string): boolean {
  return list.includes("*") || list.includes(value);
}

/** Returns whether a pattern matches. `pods/*` matches pods and their subresources; `*` matches no subresources. */
function matchesResource(
  resources: readonly string[],
  resource: string,
  subresource: string,
): boolean {
  return resources.some((pattern) => {
    const [resourcePattern = "", subresourcePattern = ""] = pattern.split("/");
    return (
      (resourcePattern === "*" || resourcePattern === resource) &&
      (subresourcePattern === "*" || subresourcePattern === subresource)
    );
  });
}

function matchesRule(rule: Rule, request: AdmissionRequest, kind: Kind): boolean {
  const scope = kind.namespaced ? "Namespaced" : "Cluster";
  return (
    includesOrWildcard(rule.operations, request.operation) &&
    includesOrWildcard(rule.groups, kind.group) &&
    includesOrWildcard(rule.versions, kind.version) &&
    matchesResource(rule.resources, kind.resource, request.subresource) &&
    (rule.scope === "*" || rule.scope === scope)
  );
}

function labelsOf(object: KubeObject | undefined): Readonly<Record<string, string>> {
  return object?.metadata.labels ?? {};
}

function readNamespaceLabels(store: Store, name: string): Readonly<Record<string, string>> {
  return labelsOf(store.find({ bucket: "/namespaces", namespace: "", name })?.view());
}

/** Applies the namespaceSelector to the object's namespace, or to the object if it is a Namespace. Other cluster-scoped objects match. */
function matchesNamespace(webhook: Webhook, request: AdmissionRequest, store: Store): boolean {
  const { kind, object, operation, subresource } = request;
  if (!webhook.selectsNamespaces) {
    return true;
  }
  if (isNamespace(kind)) {
    return webhook.matchesNamespace(
      subresource === "" && operation !== "DELETE"
        ? labelsOf(object)
        : readNamespaceLabels(store, request.name),
    );
  }
  return (
    !kind.namespaced || webhook.matchesNamespace(readNamespaceLabels(store, request.namespace))
  );
}

function matchesObject(webhook: Webhook, request: AdmissionRequest): boolean {
  return (
    !webhook.selectsObjects ||
    [request.object, request.oldObject].some(
      (object) => object !== undefined && webhook.matchesObject(labelsOf(object)),
    )
  );
}

function listEquivalentKinds(
  request: AdmissionRequest,
  webhook: Webhook,
  registry: Registry,
): readonly Kind[] {
  const { kind } = request;
  if (!webhook.matchesEquivalent) {
    return [kind];
  }
  const allVersions = registry
    .list()
    .filter((candidate) => candidate.group === kind.group && candidate.resource === kind.resource);
  return [kind, ...allVersions.filter((candidate) => candidate.version !== kind.version)];
}

/** Returns the kind in the first version that a rule of the webhook matches, or undefined if the webhook does not match the request. */
export function findMatchingKind(
  webhook: Webhook,
  request: AdmissionRequest,
  deps: MatchDeps,
): Kind | undefined {
  const match = listEquivalentKinds(request, webhook, deps.registry).find((kind) =>
    webhook.rules.some((rule) => matchesRule(rule, request, kind)),
  );
  return match !== undefined &&
    matchesNamespace(webhook, request, deps.store) &&
    matchesObject(webhook, request)
    ? match
    : undefined;
}

function toVariables(request: AdmissionRequest, wantedKind: Kind): Variables {
  const review = toReview(request, { wantedKind, uid: "", version: "v1" });
  const { object, oldObject, ...requestFields } = asFields(review["request"]);
  return { object, oldObject, request: requestFields };
}

function evaluateCondition(
  { name, evaluate }: MatchCondition,
  variables: Variables,
): boolean | Error {
  try {
    return evaluate(variables);
  } catch (error) {
    return new Error(`matchConditions[${name}]: ${messageOf(error)}`);
  }
}

/** Returns false if any condition is false; otherwise the first error, if any; otherwise true. Source: KEP-3716. */
export function evaluateConditions(
  { conditions }: Pick<Webhook, "conditions">,
  request: AdmissionRequest,
  wantedKind: Kind,
): boolean | Error {
  if (conditions.length === 0) return true;
  const variables = toVariables(request, wantedKind);
  const results = conditions.map((condition) => evaluateCondition(condition, variables));
  if (results.includes(false)) return false;
  return results.find((result) => result instanceof Error) ?? true;
}
