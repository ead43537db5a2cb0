// SPDX-License-Identifier: Apache-2.0
// Pod disruption budgets. Who counts their pods: disruptions.ts. Source: Kubernetes policy/v1.
import type { Cause } from "../../meta/status.ts";
import { invalidValue } from "../../meta/causes.ts";
import { asText, fieldsOf, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Column, type Kind, defineKind } from "../kind.ts";
import { selectorCauses } from "../selector-causes.ts";

function amountCauses(value: unknown, field: string): Cause[] {
  if (typeof value === "string" && !/^\d+%$/.test(value)) {
    const why =
      "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    return [invalidValue(field, value, why)];
  }
  return typeof value === "number" && value < 0
    ? [invalidValue(field, value, "must be greater than or equal to 0")]
    : [];
}

function validate(budget: KubeObject): Cause[] {
  const spec = fieldsOf(budget["spec"]);
  const { minAvailable, maxUnavailable, selector } = spec;
  const both = minAvailable !== undefined && maxUnavailable !== undefined;
  return [
    ...(both
      ? [invalidValue("spec", spec, "minAvailable and maxUnavailable cannot be both set")]
      : []),
    ...amountCauses(minAvailable, "spec.minAvailable"),
    ...amountCauses(maxUnavailable, "spec.maxUnavailable"),
    ...selectorCauses(selector, "spec.selector"),
  ];
}

function amountColumn(name: string, key: string): Column {
  const cell = (budget: KubeObject) => asText(valueAt(budget, "spec", key) ?? "N/A");
  return { name, type: "string", cell };
}

/** An eviction asks them. */
export const POD_DISRUPTION_BUDGET: Kind = defineKind({
  group: "policy",
  version: "v1",
  resource: "poddisruptionbudgets",
  kind: "PodDisruptionBudget",
  shortNames: ["pdb"],
  strategy: {
    hasStatus: true,
    hasGeneration: true,
    allowsUnconditionalUpdate: false,
    prepareCreate: (budget) => {
      budget["status"] = {
        currentHealthy: 0,
        desiredHealthy: 0,
        disruptionsAllowed: 0,
        expectedPods: 0,
      };
    },
    validate,
    columns: [
      amountColumn("Min Available", "minAvailable"),
      amountColumn("Max Unavailable", "maxUnavailable"),
      {
        name: "Allowed Disruptions",
        type: "integer",
        cell: (budget) => valueAt(budget, "status", "disruptionsAllowed") ?? 0,
      },
      AGE,
    ],
  },
});
