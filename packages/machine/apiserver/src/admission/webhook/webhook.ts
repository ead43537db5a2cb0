// SPDX-License-Identifier: Apache-2.0
// A webhook as a configuration describes it, read once. Source: admissionregistration.k8s.io/v1.
import { compileCondition, type Condition } from "../../expressions/condition.ts";
import { matcherOf } from "../../meta/label-selector.ts";
import { type Fields, fieldsOf, listOf, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { StoredObject } from "../../storage/store.ts";

/** What a rule matches. */
export interface Rule {
  readonly operations: readonly string[];
  readonly groups: readonly string[];
  readonly versions: readonly string[];
  readonly resources: readonly string[];
  /** `Cluster`, `Namespaced` or `*`. */
  readonly scope: string;
}

/** What must hold of a write for the webhook to hear of it. */
export interface MatchCondition {
  readonly name: string;
  readonly holds: Condition;
}

/** Whether labels match. */
type LabelTest = (labels: Readonly<Record<string, string>>) => boolean;

/** Versions of AdmissionReview that the server speaks. */
export type ReviewVersion = "v1" | "v1beta1";

/** One webhook. */
export interface Webhook {
  readonly name: string;
  readonly mutating: boolean;
  readonly clientConfig: Fields;
  readonly rules: readonly Rule[];
  readonly failsClosed: boolean;
  /** Whether rules for another version of the resource count too. */
  readonly matchesEquivalent: boolean;
  /** Whether it may be asked about dry runs. */
  readonly allowsDryRun: boolean;
  readonly timeoutMs: number;
  /** Whether it is asked again when others changed the object after it. */
  readonly reinvoked: boolean;
  /** The first of its versions that the server speaks. */
  readonly reviewVersion: ReviewVersion;
  /** Whether the namespace has to be looked at. */
  readonly selectsNamespaces: boolean;
  readonly matchesNamespace: LabelTest;
  readonly selectsObjects: boolean;
  readonly matchesObject: LabelTest;
  readonly conditions: readonly MatchCondition[];
}

const DEFAULT_TIMEOUT_SECONDS = 10;

function textsOf(value: unknown): string[] {
  return listOf(value).filter((item): item is string => typeof item === "string");
}

function toRule(rule: unknown): Rule {
  return {
    operations: textsOf(valueAt(rule, "operations")),
    groups: textsOf(valueAt(rule, "apiGroups")),
    versions: textsOf(valueAt(rule, "apiVersions")),
    resources: textsOf(valueAt(rule, "resources")),
    scope: textAt(rule, "scope") || "*",
  };
}

function isSelective(selector: unknown): boolean {
  const { matchLabels, matchExpressions } = fieldsOf(selector);
  return Object.keys(fieldsOf(matchLabels)).length + listOf(matchExpressions).length > 0;
}

function toLabelTest(selector: unknown): LabelTest {
  const { matchLabels, matchExpressions } = fieldsOf(selector);
  const labels = Object.entries(fieldsOf(matchLabels)).map(
    ([key, value]) => [key, String(value)] as const,
  );
  return matcherOf({
    matchLabels: Object.fromEntries(labels),
    matchExpressions: listOf(matchExpressions).map((expression) => ({
      key: textAt(expression, "key"),
      operator: textAt(expression, "operator"),
      values: textsOf(valueAt(expression, "values")),
    })),
  });
}

function reviewVersionOf(value: unknown): ReviewVersion {
  const versions = textsOf(valueAt(value, "admissionReviewVersions"));
  const first = versions.find((version) => version === "v1" || version === "v1beta1");
  return first === "v1beta1" ? "v1beta1" : "v1";
}

function toWebhook(value: unknown, mutating: boolean): Webhook {
  const sideEffects = textAt(value, "sideEffects");
  const namespaceSelector = valueAt(value, "namespaceSelector");
  const objectSelector = valueAt(value, "objectSelector");
  return {
    name: textAt(value, "name"),
    mutating,
    clientConfig: fieldsOf(valueAt(value, "clientConfig")),
    rules: listOf(valueAt(value, "rules")).map(toRule),
    failsClosed: textAt(value, "failurePolicy") !== "Ignore",
    matchesEquivalent: textAt(value, "matchPolicy") !== "Exact",
    allowsDryRun: sideEffects === "None" || sideEffects === "NoneOnDryRun",
    timeoutMs: Number(valueAt(value, "timeoutSeconds") ?? DEFAULT_TIMEOUT_SECONDS) * 1000,
    reinvoked: textAt(value, "reinvocationPolicy") === "IfNeeded",
    reviewVersion: reviewVersionOf(value),
    selectsNamespaces: isSelective(namespaceSelector),
    matchesNamespace: toLabelTest(namespaceSelector),
    selectsObjects: isSelective(objectSelector),
    matchesObject: toLabelTest(objectSelector),
    conditions: listOf(valueAt(value, "matchConditions")).map((condition) => ({
      name: textAt(condition, "name"),
      holds: compileCondition(textAt(condition, "expression")),
    })),
  };
}

/** Read configurations, by the state that they were read from. */
const READ = new WeakMap<StoredObject, readonly Webhook[]>();

/** The webhooks of a stored configuration, in order. */
export function webhooksOf(configuration: StoredObject): readonly Webhook[] {
  const known = READ.get(configuration);
  if (known !== undefined) {
    return known;
  }
  const object: KubeObject = configuration.view();
  const mutating = object.kind === "MutatingWebhookConfiguration";
  const webhooks = listOf(object["webhooks"]).map((webhook) => toWebhook(webhook, mutating));
  READ.set(configuration, webhooks);
  return webhooks;
}
