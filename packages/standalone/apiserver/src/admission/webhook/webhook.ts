// SPDX-License-Identifier: Apache-2.0
// Parsed webhook configurations. Source: admissionregistration.k8s.io/v1.
import { compileCondition, type Condition } from "../../expressions/condition.ts";
import { makeLabelMatcher } from "../../meta/label-selector.ts";
import { type Fields, asFields, asList, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { StoredObject } from "../../storage/store.ts";

export interface Rule {
  readonly operations: readonly string[];
  readonly groups: readonly string[];
  readonly versions: readonly string[];
  readonly resources: readonly string[];
  /** Scope of the resources: `Cluster`, `Namespaced` or `*`. */
  readonly scope: string;
}

export interface MatchCondition {
  readonly name: string;
  readonly evaluate: Condition;
}

type LabelTest = (labels: Readonly<Record<string, string>>) => boolean;

export type ReviewVersion = "v1" | "v1beta1";

export interface Webhook {
  readonly name: string;
  readonly isMutating: boolean;
  readonly clientConfig: Fields;
  readonly rules: readonly Rule[];
  readonly failsClosed: boolean;
  readonly matchesEquivalent: boolean;
  readonly allowsDryRun: boolean;
  readonly timeoutMs: number;
  readonly isReinvocable: boolean;
  readonly reviewVersion: ReviewVersion;
  readonly selectsNamespaces: boolean;
  readonly matchesNamespace: LabelTest;
  readonly selectsObjects: boolean;
  readonly matchesObject: LabelTest;
  readonly conditions: readonly MatchCondition[];
}

const DEFAULT_TIMEOUT_SECONDS = 10;

function toStrings(value: unknown): string[] {
  return asList(value).filter((item): item is string => typeof item === "string");
}

function toRule(rule: unknown): Rule {
  return {
    operations: toStrings(valueAt(rule, "operations")),
    groups: toStrings(valueAt(rule, "apiGroups")),
    versions: toStrings(valueAt(rule, "apiVersions")),
    resources: toStrings(valueAt(rule, "resources")),
    scope: textAt(rule, "scope") || "*",
  };
}

function isSelective(selector: unknown): boolean {
  const { matchLabels, matchExpressions } = asFields(selector);
  return Object.keys(asFields(matchLabels)).length + asList(matchExpressions).length > 0;
}

function toLabelTest(selector: unknown): LabelTest {
  const { matchLabels, matchExpressions } = asFields(selector);
  const labels = Object.entries(asFields(matchLabels)).map(
    ([key, value]) => [key, String(value)] as const,
  );
  return makeLabelMatcher({
    matchLabels: Object.fromEntries(labels),
    matchExpressions: asList(matchExpressions).map((expression) => ({
      key: textAt(expression, "key"),
      operator: textAt(expression, "operator"),
      values: toStrings(valueAt(expression, "values")),
    })),
  });
}

function chooseReviewVersion(value: unknown): ReviewVersion {
  const versions = toStrings(valueAt(value, "admissionReviewVersions"));
  const supportedVersion = versions.find((version) => version === "v1" || version === "v1beta1");
  return supportedVersion === "v1beta1" ? "v1beta1" : "v1";
}

function toWebhook(value: unknown, isMutating: boolean): Webhook {
  const sideEffects = textAt(value, "sideEffects");
  const namespaceSelector = valueAt(value, "namespaceSelector");
  const objectSelector = valueAt(value, "objectSelector");
  return {
    name: textAt(value, "name"),
    isMutating,
    clientConfig: asFields(valueAt(value, "clientConfig")),
    rules: asList(valueAt(value, "rules")).map(toRule),
    failsClosed: textAt(value, "failurePolicy") !== "Ignore",
    matchesEquivalent: textAt(value, "matchPolicy") !== "Exact",
    allowsDryRun: sideEffects === "None" || sideEffects === "NoneOnDryRun",
    timeoutMs: Number(valueAt(value, "timeoutSeconds") ?? DEFAULT_TIMEOUT_SECONDS) * 1000,
    isReinvocable: textAt(value, "reinvocationPolicy") === "IfNeeded",
    reviewVersion: chooseReviewVersion(value),
    selectsNamespaces: isSelective(namespaceSelector),
    matchesNamespace: toLabelTest(namespaceSelector),
    selectsObjects: isSelective(objectSelector),
    matchesObject: toLabelTest(objectSelector),
    conditions: asList(valueAt(value, "matchConditions")).map((condition) => ({
      name: textAt(condition, "name"),
      evaluate: compileCondition(textAt(condition, "expression")),
    })),
  };
}

const PARSED_CONFIGURATIONS = new WeakMap<StoredObject, readonly Webhook[]>();

export function parseWebhooks(configuration: StoredObject): readonly Webhook[] {
  const cachedWebhooks = PARSED_CONFIGURATIONS.get(configuration);
  if (cachedWebhooks !== undefined) {
    return cachedWebhooks;
  }
  const object: KubeObject = configuration.view();
  const isMutating = object.kind === "MutatingWebhookConfiguration";
  const webhooks = asList(object["webhooks"]).map((webhook) => toWebhook(webhook, isMutating));
  PARSED_CONFIGURATIONS.set(configuration, webhooks);
  return webhooks;
}
