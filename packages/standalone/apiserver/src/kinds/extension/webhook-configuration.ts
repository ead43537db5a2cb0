// SPDX-License-Identifier: Apache-2.0
// Configurations of mutating and validating admission webhooks. Source: admissionregistration/v1.
import { type Fields, isFields, asList, textAt, valueAt } from "../../objects/json.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import type { Cause } from "../../meta/status.ts";
import {
  duplicateValue,
  invalidValue,
  requiredValue,
  tooManyValue,
  unsupportedValue,
} from "../../meta/causes.ts";
import { conditionFault } from "../../expressions/condition.ts";
import { dns1035Fault, qualifiedNameFault, subdomainFault } from "../../meta/names.ts";
import type { KubeObject } from "../../objects/object.ts";
import { selectorCauses } from "../selector.ts";
import { clientConfigCauses, stringItems } from "./client-config.ts";

const OPERATIONS = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES = ["*", "Cluster", "Namespaced"];

/** Checks that the list is not empty, and that no other items are listed with `*`. */
function listCauses(values: readonly string[], field: string, itemNoun: string): Cause[] {
  if (values.length === 0) {
    return [requiredValue(field)];
  }
  return values.length > 1 && values.includes("*")
    ? [invalidValue(field, values, `if '*' is present, must not specify other ${itemNoun}`)]
    : [];
}

function emptyCauses(values: readonly string[], field: string): Cause[] {
  return values.flatMap((value, index) =>
    value === "" ? [requiredValue(`${field}[${String(index)}]`)] : [],
  );
}

function overlapCauses(resources: readonly string[], field: string): Cause[] {
  const wholeResources = new Set<string>();
  const wholeSubresources = new Set<string>();
  return resources.flatMap((pattern, index) => {
    const [resource = "", subresource] = pattern.split("/");
    if (subresource === undefined) {
      return [];
    }
    const itemField = `${field}[${String(index)}]`;
    const causes = [
      ...(wholeResources.has(resource) ? [`${resource}/*`] : []),
      ...(wholeSubresources.has(subresource) ? [`*/${subresource}`] : []),
    ].map((wildcard) =>
      invalidValue(itemField, pattern, `if '${wildcard}' is present, must not specify ${pattern}`),
    );
    if (subresource === "*") {
      wholeResources.add(resource);
    }
    if (resource === "*") {
      wholeSubresources.add(subresource);
    }
    return causes;
  });
}

function resourceCauses(resources: readonly string[], field: string): Cause[] {
  if (resources.length === 0) {
    return [requiredValue(field)];
  }
  const causes = [...emptyCauses(resources, field), ...overlapCauses(resources, field)];
  if (resources.length > 1 && resources.includes("*/*")) {
    causes.push(
      invalidValue(field, resources, "if '*/*' is present, must not specify other resources"),
    );
  }
  if (
    resources.includes("*") &&
    resources.some((resource) => resource !== "*" && !resource.includes("/"))
  ) {
    causes.push(
      invalidValue(
        field,
        resources,
        "if '*' is present, must not specify other resources without subresources",
      ),
    );
  }
  return causes;
}

function ruleCauses(rule: unknown, field: string): Cause[] {
  const list = (key: string) => stringItems(valueAt(rule, key));
  const operations = list("operations");
  const scope = valueAt(rule, "scope");
  return [
    ...listCauses(operations, `${field}.operations`, "operations"),
    ...operations
      .map((operation, index) => [operation, index] as const)
      .filter(([operation]) => !OPERATIONS.includes(operation))
      .map(([operation, index]) =>
        unsupportedValue(`${field}.operations[${String(index)}]`, operation, OPERATIONS),
      ),
    ...listCauses(list("apiGroups"), `${field}.apiGroups`, "API groups"),
    ...listCauses(list("apiVersions"), `${field}.apiVersions`, "API versions"),
    ...emptyCauses(list("apiVersions"), `${field}.apiVersions`),
    ...resourceCauses(list("resources"), `${field}.resources`),
    ...(typeof scope === "string" && !SCOPES.includes(scope)
      ? [unsupportedValue(`${field}.scope`, scope, SCOPES)]
      : []),
  ];
}

const REVIEW_VERSIONS = ["v1", "v1beta1"];
const SIDE_EFFECTS = ["None", "NoneOnDryRun"];
const TIMEOUT_MAX_SECONDS = 30;
/** Maximum number of match conditions. Source: Kubernetes admissionregistration validation. */
const CONDITIONS_MAX = 64;
const NAME_PARTS_MIN = 3;

const ALLOWED_VALUES: Readonly<Record<string, readonly string[]>> = {
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
  const message = "should be a domain with at least three segments separated by dots";
  return name.split(".").length < NAME_PARTS_MIN ? [invalidValue(field, name, message)] : [];
}

function allowedValueCauses(webhook: unknown, field: string): Cause[] {
  return Object.entries(ALLOWED_VALUES).flatMap(([key, allowed]) => {
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
    const itemField = `${field}[${String(index)}]`;
    if (versions.indexOf(version) < index) {
      return [invalidValue(itemField, version, "duplicate version")];
    }
    const fault = dns1035Fault(version);
    return fault === undefined ? [] : [invalidValue(itemField, version, fault)];
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
  const conditions = asList(valueAt(webhook, "matchConditions"));
  if (conditions.length > CONDITIONS_MAX) {
    return [tooManyValue(field, conditions.length, CONDITIONS_MAX)];
  }
  const names = conditions.map((condition) => textAt(condition, "name"));
  return conditions.flatMap((condition, index) => {
    const itemField = `${field}[${String(index)}]`;
    const name = names[index] ?? "";
    const fault = name === "" ? undefined : qualifiedNameFault(name);
    return [
      ...expressionCauses(textAt(condition, "expression"), `${itemField}.expression`),
      ...(name === "" ? [requiredValue(`${itemField}.name`)] : []),
      ...(fault === undefined ? [] : [invalidValue(`${itemField}.name`, name, fault)]),
      ...(name !== "" && names.indexOf(name) < index
        ? [duplicateValue(`${itemField}.name`, name)]
        : []),
    ];
  });
}

function webhookCauses(webhook: unknown, field: string): Cause[] {
  const fieldPath = (key: string) => `${field}.${key}`;
  return [
    ...versionCauses(
      stringItems(valueAt(webhook, "admissionReviewVersions")),
      fieldPath("admissionReviewVersions"),
    ),
    ...nameCauses(textAt(webhook, "name"), fieldPath("name")),
    ...asList(valueAt(webhook, "rules")).flatMap((rule, index) =>
      ruleCauses(rule, `${fieldPath("rules")}[${String(index)}]`),
    ),
    ...allowedValueCauses(webhook, field),
    ...sideEffectCauses(webhook, fieldPath("sideEffects")),
    ...timeoutCauses(webhook, fieldPath("timeoutSeconds")),
    ...selectorCauses(valueAt(webhook, "namespaceSelector"), fieldPath("namespaceSelector")),
    ...selectorCauses(valueAt(webhook, "objectSelector"), fieldPath("objectSelector")),
    ...clientConfigCauses(valueAt(webhook, "clientConfig"), fieldPath("clientConfig")),
    ...conditionCauses(webhook, fieldPath("matchConditions")),
  ];
}

function webhookConfigurationCauses(configuration: KubeObject): Cause[] {
  const webhooks: readonly unknown[] = asList(configuration["webhooks"]);
  const names = webhooks.map((webhook) => textAt(webhook, "name"));
  return webhooks.flatMap((webhook, index) => {
    const field = `webhooks[${String(index)}]`;
    const name = names[index] ?? "";
    const isDuplicate = name !== "" && names.indexOf(name) < index;
    return [
      ...webhookCauses(webhook, field),
      ...(isDuplicate ? [duplicateValue(`${field}.name`, name)] : []),
    ];
  });
}

const WEBHOOK_DEFAULTS = {
  failurePolicy: "Fail",
  matchPolicy: "Equivalent",
  namespaceSelector: {},
  objectSelector: {},
  timeoutSeconds: 10,
};

function defaultWebhook(webhook: Fields, isMutating: boolean): void {
  const defaults = { ...WEBHOOK_DEFAULTS, ...(isMutating ? { reinvocationPolicy: "Never" } : {}) };
  for (const [key, value] of Object.entries(defaults)) {
    webhook[key] ??= value;
  }
  for (const rule of asList(webhook["rules"]).filter(isFields)) {
    rule["scope"] ??= "*";
  }
  const service = valueAt(webhook, "clientConfig", "service");
  if (isFields(service)) {
    service["port"] ??= 443;
  }
}

function webhookKind(resource: string, kind: string, isMutating: boolean): Kind {
  return defineKind({
    group: "admissionregistration.k8s.io",
    version: "v1",
    resource,
    kind,
    namespaced: false,
    categories: ["api-extensions"],
    strategy: {
      hasGeneration: true,
      applyDefaults: (object) => {
        for (const webhook of asList(object["webhooks"]).filter(isFields)) {
          defaultWebhook(webhook, isMutating);
        }
      },
      validate: webhookConfigurationCauses,
      columns: [
        { name: "Webhooks", type: "integer", cell: (object) => asList(object["webhooks"]).length },
        AGE,
      ],
    },
  });
}

export const WEBHOOK_CONFIGURATION_KINDS: readonly Kind[] = [
  webhookKind("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", true),
  webhookKind("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false),
];
