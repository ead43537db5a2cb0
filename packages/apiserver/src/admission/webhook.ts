// SPDX-License-Identifier: Apache-2.0
// A webhook as a configuration describes it, read once. Source: admissionregistration.k8s.io/v1.
import { matcherOf } from "../meta/label-selector.ts";
import { type Fields, fieldsOf, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";

/** What a rule matches. */
export interface Rule {
  readonly operations: readonly string[];
  readonly groups: readonly string[];
  readonly versions: readonly string[];
  readonly resources: readonly string[];
  /** `Cluster`, `Namespaced` or `*`. */
  readonly scope: string;
}

/** Whether labels match. */
export type LabelTest = (labels: Readonly<Record<string, string>>) => boolean;

/** One webhook. */
export interface Webhook {
  readonly name: string;
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
  readonly matchesNamespace: LabelTest;
  readonly matchesObject: LabelTest;
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

function toWebhook(value: unknown): Webhook {
  const sideEffects = textAt(value, "sideEffects");
  return {
    name: textAt(value, "name"),
    clientConfig: fieldsOf(valueAt(value, "clientConfig")),
    rules: listOf(valueAt(value, "rules")).map(toRule),
    failsClosed: textAt(value, "failurePolicy") !== "Ignore",
    matchesEquivalent: textAt(value, "matchPolicy") !== "Exact",
    allowsDryRun: sideEffects === "None" || sideEffects === "NoneOnDryRun",
    timeoutMs: Number(valueAt(value, "timeoutSeconds") ?? DEFAULT_TIMEOUT_SECONDS) * 1000,
    reinvoked: textAt(value, "reinvocationPolicy") === "IfNeeded",
    matchesNamespace: toLabelTest(valueAt(value, "namespaceSelector")),
    matchesObject: toLabelTest(valueAt(value, "objectSelector")),
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
  const webhooks = listOf(object["webhooks"]).map(toWebhook);
  READ.set(configuration, webhooks);
  return webhooks;
}
