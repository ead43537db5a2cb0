// SPDX-License-Identifier: Apache-2.0
// Label selectors inside objects as text and as predicates. Source: metav1.LabelSelector.
import { type LabelMatcher, matcherOf } from "../meta/label-selector.ts";
import { type Fields, fieldsOf, isFields, listOf, textAt } from "../objects/json.ts";

function expressionsOf(selector: Fields): readonly Fields[] {
  return listOf(selector["matchExpressions"]).filter(isFields);
}

function labelsOf(value: unknown): Record<string, string> {
  return Object.fromEntries(
    Object.entries(fieldsOf(value)).map(([key, text]) => [key, String(text)]),
  );
}

function expressionText(expression: Fields): string {
  const key = textAt(expression, "key");
  const values = `(${listOf(expression["values"]).map(String).sort().join(",")})`;
  const texts: Readonly<Record<string, string>> = {
    In: `${key} in ${values}`,
    NotIn: `${key} notin ${values}`,
    Exists: key,
    DoesNotExist: `!${key}`,
  };
  return texts[textAt(expression, "operator")] ?? key;
}

/** The selector as clients write it in a query; empty where there is none. */
export function selectorText(value: unknown): string {
  const selector = fieldsOf(value);
  const labels = Object.entries(labelsOf(selector["matchLabels"])).map(
    ([key, text]) => [key, `${key}=${text}`] as const,
  );
  const expressions = expressionsOf(selector).map(
    (expression) => [textAt(expression, "key"), expressionText(expression)] as const,
  );
  return [...labels, ...expressions]
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([, text]) => text)
    .join(",");
}

/** Which labels a selector matches. */
export function selectorMatcher(value: unknown): LabelMatcher {
  const selector = fieldsOf(value);
  return matcherOf({
    matchLabels: labelsOf(selector["matchLabels"]),
    matchExpressions: expressionsOf(selector).map((expression) => ({
      key: textAt(expression, "key"),
      operator: textAt(expression, "operator"),
      values: listOf(expression["values"]).map(String),
    })),
  });
}
