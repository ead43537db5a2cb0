// SPDX-License-Identifier: Apache-2.0
// With which options is something written? Source: metav1.CreateOptions, UpdateOptions.
import type { Fields } from "../objects/json.ts";

/** Options of a query as an object, as webhooks are told them. */
export function writeOptions(
  kind: "CreateOptions" | "UpdateOptions",
  query: URLSearchParams,
): Fields {
  const dryRun = query.getAll("dryRun");
  const given = (name: string) => {
    const value = query.get(name) ?? "";
    return value === "" ? {} : { [name]: value };
  };
  return {
    kind,
    apiVersion: "meta.k8s.io/v1",
    ...(dryRun.length === 0 ? {} : { dryRun }),
    ...given("fieldManager"),
    ...given("fieldValidation"),
  };
}
