// SPDX-License-Identifier: Apache-2.0
// Are the rules of an admission webhook allowed? Source: admissionregistration/v1 RuleWithOperations.
import type { Cause } from "../../meta/status.ts";
import { invalidValue, requiredValue, unsupportedValue } from "../../meta/causes.ts";
import { valueAt } from "../../objects/json.ts";
import { textsIn } from "./service-reference-causes.ts";

const OPERATIONS = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES = ["*", "Cluster", "Namespaced"];

/** A list that must not be empty, and in which `*` stands alone. */
function listCauses(values: readonly string[], field: string, what: string): Cause[] {
  if (values.length === 0) {
    return [requiredValue(field)];
  }
  return values.length > 1 && values.includes("*")
    ? [invalidValue(field, values, `if '*' is present, must not specify other ${what}`)]
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
  return resources.flatMap((form, index) => {
    const [resource = "", subresource] = form.split("/");
    if (subresource === undefined) {
      return [];
    }
    const at = `${field}[${String(index)}]`;
    const causes = [
      ...(wholeResources.has(resource) ? [`${resource}/*`] : []),
      ...(wholeSubresources.has(subresource) ? [`*/${subresource}`] : []),
    ].map((whole) => invalidValue(at, form, `if '${whole}' is present, must not specify ${form}`));
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
  if (resources.includes("*") && resources.some((form) => form !== "*" && !form.includes("/"))) {
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

/** Causes for which a rule is refused. */
export function ruleCauses(rule: unknown, field: string): Cause[] {
  const list = (key: string) => textsIn(valueAt(rule, key));
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
