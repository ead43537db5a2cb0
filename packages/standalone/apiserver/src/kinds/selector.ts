// SPDX-License-Identifier: Apache-2.0
// Label selectors inside objects. Source: metav1.LabelSelector and its validation.
import { type LabelMatcher, makeLabelMatcher } from "../meta/label-selector.ts";
import { type Fields, asFields, isFields, asList, textAt, valueAt } from "../objects/json.ts";
import type { Cause } from "../meta/status.ts";
import { forbiddenValue, invalidValue, requiredValue } from "../meta/causes.ts";
import { labelValueFault, qualifiedNameFault } from "../meta/names.ts";

function listExpressions(selector: Fields): readonly Fields[] {
  return asList(selector["matchExpressions"]).filter(isFields);
}

function toLabels(value: unknown): Record<string, string> {
  return Object.fromEntries(
    Object.entries(asFields(value)).map(([key, text]) => [key, String(text)]),
  );
}

function printExpression(expression: Fields): string {
  const key = textAt(expression, "key");
  const values = `(${asList(expression["values"]).map(String).sort().join(",")})`;
  const texts: Readonly<Record<string, string>> = {
    In: `${key} in ${values}`,
    NotIn: `${key} notin ${values}`,
    Exists: key,
    DoesNotExist: `!${key}`,
  };
  return texts[textAt(expression, "operator")] ?? key;
}

/** Prints the selector in the syntax of the labelSelector query parameter. */
export function printSelector(value: unknown): string {
  const selector = asFields(value);
  const labels = Object.entries(toLabels(selector["matchLabels"])).map(
    ([key, text]) => [key, `${key}=${text}`] as const,
  );
  const expressions = listExpressions(selector).map(
    (expression) => [textAt(expression, "key"), printExpression(expression)] as const,
  );
  return [...labels, ...expressions]
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([, text]) => text)
    .join(",");
}

export function selectorMatcher(value: unknown): LabelMatcher {
  const selector = asFields(value);
  return makeLabelMatcher({
    matchLabels: toLabels(selector["matchLabels"]),
    matchExpressions: listExpressions(selector).map((expression) => ({
      key: textAt(expression, "key"),
      operator: textAt(expression, "operator"),
      values: asList(expression["values"]).map(String),
    })),
  });
}

function expressionCauses(expression: unknown, field: string): Cause[] {
  const operator = textAt(expression, "operator");
  const key = textAt(expression, "key");
  const values = asList(valueAt(expression, "values"));
  const keyFault = qualifiedNameFault(key);
  const causes: Cause[] =
    keyFault === undefined ? [] : [invalidValue(`${field}.key`, key, keyFault)];
  switch (operator) {
    case "In":
    case "NotIn":
      if (values.length === 0) {
        causes.push(
          requiredValue(`${field}.values`, "must be specified when `operator` is 'In' or 'NotIn'"),
        );
      }
      break;
    case "Exists":
    case "DoesNotExist":
      if (values.length > 0) {
        causes.push(
          forbiddenValue(
            `${field}.values`,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
          ),
        );
      }
      break;
    default:
      causes.push(invalidValue(`${field}.operator`, operator, "not a valid selector operator"));
  }
  return causes;
}

export function selectorCauses(selector: unknown, field: string): Cause[] {
  const labels = Object.entries(asFields(valueAt(selector, "matchLabels")));
  const expressions = asList(valueAt(selector, "matchExpressions"));
  return [
    ...labels.flatMap(([key, value]) => {
      const keyFault = qualifiedNameFault(key);
      const valueFault = labelValueFault(String(value));
      return [
        ...(keyFault === undefined ? [] : [invalidValue(`${field}.matchLabels`, key, keyFault)]),
        ...(valueFault === undefined
          ? []
          : [invalidValue(`${field}.matchLabels`, value, valueFault)]),
      ];
    }),
    ...expressions.flatMap((expression, index) =>
      expressionCauses(expression, `${field}.matchExpressions[${String(index)}]`),
    ),
  ];
}
