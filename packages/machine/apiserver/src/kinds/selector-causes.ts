// SPDX-License-Identifier: Apache-2.0
// Is a label selector of an object allowed? Source: Kubernetes metav1/validation.
import type { Cause } from "../meta/status.ts";
import { forbiddenValue, invalidValue, requiredValue } from "../meta/causes.ts";
import { labelValueFault, qualifiedFault } from "../meta/names.ts";
import { fieldsOf, listOf, textAt, valueAt } from "../objects/json.ts";

function expressionCauses(expression: unknown, field: string): Cause[] {
  const operator = textAt(expression, "operator");
  const key = textAt(expression, "key");
  const values = listOf(valueAt(expression, "values"));
  const keyFault = qualifiedFault(key);
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

/** Causes for which a metav1.LabelSelector is refused. */
export function selectorCauses(selector: unknown, field: string): Cause[] {
  const labels = Object.entries(fieldsOf(valueAt(selector, "matchLabels")));
  const expressions = listOf(valueAt(selector, "matchExpressions"));
  return [
    ...labels.flatMap(([key, value]) => {
      const keyFault = qualifiedFault(key);
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
