// SPDX-License-Identifier: Apache-2.0
// Can a list of what tenants' definitions may name be understood? What cannot would allow or refuse something else.
import type { Cause } from "../kinds/kubernetes/meta.ts";
import { POLICY_ENTRIES, POLICY_FIELDS, type PolicyFieldName } from "../kinds/tenant-policy.ts";

/** All that is wrong with a list, wherever it comes from; `field` is its path. */
export function policyCauses(
  name: PolicyFieldName,
  value: unknown,
  field: string,
): readonly Cause[] {
  const invalid = (at: string, message: string): Cause => ({
    reason: "FieldValueInvalid",
    field: at,
    message,
  });
  if (!Array.isArray(value)) return [invalid(field, "must be a list of texts")];
  const { pattern, must } = POLICY_ENTRIES[POLICY_FIELDS[name].entries];
  const isUnderstood = new RegExp(pattern);
  return value.flatMap((entry: unknown, index) => {
    if (typeof entry === "string" && isUnderstood.test(entry)) return [];
    return [invalid(`${field}[${String(index)}]`, `${JSON.stringify(entry)} ${must}`)];
  });
}
