// SPDX-License-Identifier: Apache-2.0
// Is a configuration of admission webhooks allowed? Source: admissionregistration/v1.
import type { Cause } from "../../meta/status.ts";
import {
  duplicateValue,
  invalidValue,
  requiredValue,
  tooManyValue,
  unsupportedValue,
} from "../../meta/causes.ts";
import { conditionFault } from "../../expressions/condition.ts";
import { dns1035Fault, qualifiedFault, subdomainFault } from "../../meta/names.ts";
import { listOf, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { selectorCauses } from "../selector-causes.ts";
import { clientConfigCauses, textsIn } from "./service-reference-causes.ts";
import { ruleCauses } from "./webhook-rule-causes.ts";

const REVIEW_VERSIONS = ["v1", "v1beta1"];
const SIDE_EFFECTS = ["None", "NoneOnDryRun"];
const TIMEOUT_MAX_SECONDS = 30;
/** Match conditions of one webhook. Source: Kubernetes admissionregistration validation. */
const CONDITIONS_MAX = 64;
/** A webhook's name has so many parts at least. */
const NAME_PARTS_MIN = 3;

/** Fields with a closed list of values. */
const CHOICES: Readonly<Record<string, readonly string[]>> = {
  failurePolicy: ["Fail", "Ignore"],
  matchPolicy: ["Equivalent", "Exact"],
  reinvocationPolicy: ["IfNeeded", "Never"],
};

function nameCauses(name: string, field: string): Cause[] {
  if (name === "") {
    return [requiredValue(field)];
  }
  const fault = subdomainFault(name);
  if (fault !== undefined) {
    return [invalidValue(field, name, fault)];
  }
  const why = "should be a domain with at least three segments separated by dots";
  return name.split(".").length < NAME_PARTS_MIN ? [invalidValue(field, name, why)] : [];
}

function choiceCauses(webhook: unknown, field: string): Cause[] {
  return Object.entries(CHOICES).flatMap(([key, allowed]) => {
    const value = valueAt(webhook, key);
    return typeof value !== "string" || allowed.includes(value)
      ? []
      : [unsupportedValue(`${field}.${key}`, value, allowed)];
  });
}

function sideEffectCauses(webhook: unknown, field: string): Cause[] {
  const value = valueAt(webhook, "sideEffects");
  if (value === undefined) {
    return [requiredValue(field, `must specify one of ${SIDE_EFFECTS.join(", ")}`)];
  }
  return SIDE_EFFECTS.some((allowed) => allowed === value)
    ? []
    : [unsupportedValue(field, value, SIDE_EFFECTS)];
}

function timeoutCauses(webhook: unknown, field: string): Cause[] {
  const seconds = Number(valueAt(webhook, "timeoutSeconds") ?? 1);
  return seconds >= 1 && seconds <= TIMEOUT_MAX_SECONDS
    ? []
    : [invalidValue(field, seconds, "the timeout value must be between 1 and 30 seconds")];
}

function versionCauses(versions: readonly string[], field: string): Cause[] {
  if (versions.length === 0) {
    return [requiredValue(field, `must specify one of ${REVIEW_VERSIONS.join(", ")}`)];
  }
  const causes = versions.flatMap((version, index) => {
    const at = `${field}[${String(index)}]`;
    if (versions.indexOf(version) < index) {
      return [invalidValue(at, version, "duplicate version")];
    }
    const fault = dns1035Fault(version);
    return fault === undefined ? [] : [invalidValue(at, version, fault)];
  });
  return versions.some((version) => REVIEW_VERSIONS.includes(version))
    ? causes
    : [
        ...causes,
        invalidValue(field, versions, `must include at least one of ${REVIEW_VERSIONS.join(", ")}`),
      ];
}

function expressionCauses(expression: string, field: string): Cause[] {
  if (expression.trim() === "") return [requiredValue(field)];
  const fault = conditionFault(expression);
  return fault === undefined ? [] : [invalidValue(field, expression, fault)];
}

function conditionCauses(webhook: unknown, field: string): Cause[] {
  const conditions = listOf(valueAt(webhook, "matchConditions"));
  if (conditions.length > CONDITIONS_MAX) {
    return [tooManyValue(field, conditions.length, CONDITIONS_MAX)];
  }
  const names = conditions.map((condition) => textAt(condition, "name"));
  return conditions.flatMap((condition, index) => {
    const at = `${field}[${String(index)}]`;
    const name = names[index] ?? "";
    const fault = name === "" ? undefined : qualifiedFault(name);
    return [
      ...expressionCauses(textAt(condition, "expression"), `${at}.expression`),
      ...(name === "" ? [requiredValue(`${at}.name`)] : []),
      ...(fault === undefined ? [] : [invalidValue(`${at}.name`, name, fault)]),
      ...(name !== "" && names.indexOf(name) < index ? [duplicateValue(`${at}.name`, name)] : []),
    ];
  });
}

function webhookCauses(webhook: unknown, field: string): Cause[] {
  const at = (key: string) => `${field}.${key}`;
  return [
    ...versionCauses(
      textsIn(valueAt(webhook, "admissionReviewVersions")),
      at("admissionReviewVersions"),
    ),
    ...nameCauses(textAt(webhook, "name"), at("name")),
    ...listOf(valueAt(webhook, "rules")).flatMap((rule, index) =>
      ruleCauses(rule, `${at("rules")}[${String(index)}]`),
    ),
    ...choiceCauses(webhook, field),
    ...sideEffectCauses(webhook, at("sideEffects")),
    ...timeoutCauses(webhook, at("timeoutSeconds")),
    ...selectorCauses(valueAt(webhook, "namespaceSelector"), at("namespaceSelector")),
    ...selectorCauses(valueAt(webhook, "objectSelector"), at("objectSelector")),
    ...clientConfigCauses(valueAt(webhook, "clientConfig"), at("clientConfig")),
    ...conditionCauses(webhook, at("matchConditions")),
  ];
}

/** Causes for which a configuration is refused. */
export function webhookConfigurationCauses(configuration: KubeObject): Cause[] {
  const webhooks: readonly unknown[] = listOf(configuration["webhooks"]);
  const names = webhooks.map((webhook) => textAt(webhook, "name"));
  return webhooks.flatMap((webhook, index) => {
    const field = `webhooks[${String(index)}]`;
    const name = names[index] ?? "";
    const isTwice = name !== "" && names.indexOf(name) < index;
    return [
      ...webhookCauses(webhook, field),
      ...(isTwice ? [duplicateValue(`${field}.name`, name)] : []),
    ];
  });
}
