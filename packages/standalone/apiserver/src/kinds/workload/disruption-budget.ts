// SPDX-License-Identifier: Apache-2.0
// PodDisruptionBudgets. The number of expected pods is the number of matching pods, because no controllers with replica
// counts run here. Source: Kubernetes policy/v1, disruption controller.
import type { Cause } from "../../meta/status.ts";
import { invalidValue } from "../../meta/causes.ts";
import { type Fields, asText, asFields, asList, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Column, type Kind, defineKind } from "../kind.ts";
import { selectorCauses, selectorMatcher } from "../selector.ts";

interface DisruptionCounts {
  readonly expectedPods: number;
  readonly currentHealthy: number;
  readonly desiredHealthy: number;
  readonly disruptionsAllowed: number;
}

export function hasEnded(pod: KubeObject): boolean {
  return ["Succeeded", "Failed"].includes(textAt(pod, "status", "phase"));
}

export function isHealthy(pod: KubeObject): boolean {
  const conditions = asList(valueAt(pod, "status", "conditions"));
  const readyCondition = conditions.find((condition) => textAt(condition, "type") === "Ready");
  return (
    textAt(readyCondition, "status") === "True" && pod.metadata.deletionTimestamp === undefined
  );
}

export function makePodMatcher(budget: KubeObject): (pod: KubeObject) => boolean {
  const selector = valueAt(budget, "spec", "selector");
  if (selector === undefined) return () => false;
  const matches = selectorMatcher(selector);
  return (pod) => matches(pod.metadata.labels ?? {});
}

/** Resolves a number, or a percentage of `total`, rounded up. Returns `total` for other text. Source: GetScaledValueFromIntOrPercent. */
function resolveAmount(value: unknown, total: number): number {
  if (typeof value === "number") return value;
  const percent = Number(String(value).replace("%", ""));
  return Number.isFinite(percent) ? Math.ceil((percent * total) / 100) : total;
}

function desiredHealthyCount({ minAvailable, maxUnavailable }: Fields, expected: number): number {
  if (minAvailable !== undefined) return resolveAmount(minAvailable, expected);
  return maxUnavailable === undefined
    ? expected
    : expected - resolveAmount(maxUnavailable, expected);
}

export function countDisruptions(
  budget: KubeObject,
  pods: readonly KubeObject[],
): DisruptionCounts {
  const matchesBudget = makePodMatcher(budget);
  const countedPods = pods.filter((pod) => matchesBudget(pod) && !hasEnded(pod));
  const [expectedPods, currentHealthy] = [countedPods.length, countedPods.filter(isHealthy).length];
  const desiredHealthy = Math.max(0, desiredHealthyCount(asFields(budget["spec"]), expectedPods));
  const disruptionsAllowed = Math.max(0, currentHealthy - desiredHealthy);
  return { expectedPods, currentHealthy, desiredHealthy, disruptionsAllowed };
}

function amountCauses(value: unknown, field: string): Cause[] {
  if (typeof value === "string" && !/^\d+%$/.test(value)) {
    const message =
      "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    return [invalidValue(field, value, message)];
  }
  return typeof value === "number" && value < 0
    ? [invalidValue(field, value, "must be greater than or equal to 0")]
    : [];
}

function validate(budget: KubeObject): Cause[] {
  const spec = asFields(budget["spec"]);
  const { minAvailable, maxUnavailable, selector } = spec;
  const setsBoth = minAvailable !== undefined && maxUnavailable !== undefined;
  return [
    ...(setsBoth
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
