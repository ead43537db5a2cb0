// SPDX-License-Identifier: Apache-2.0
// Quotas and bounds of namespaces, as objects: nothing here counts or enforces them. Source: Kubernetes core/v1.
import { asText, fieldsOf, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import { itemsOf } from "../workload/pod-defaults.ts";

/** `name: used/hard` of requests or of limits. */
function usage(quota: KubeObject, ofLimits: boolean): string {
  const hard = fieldsOf(valueAt(quota, "status", "hard"));
  const used = fieldsOf(valueAt(quota, "status", "used"));
  return Object.keys(hard)
    .filter((name) => name.startsWith("limits.") === ofLimits)
    .sort()
    .map((name) => `${name}: ${asText(used[name] ?? "0")}/${asText(hard[name])}`)
    .join(", ");
}

const RESOURCE_QUOTA: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "resourcequotas",
  kind: "ResourceQuota",
  shortNames: ["quota"],
  strategy: {
    hasStatus: true,
    prepareCreate: (quota) => {
      quota["status"] = {};
    },
    columns: [
      AGE,
      { name: "Request", type: "string", cell: (quota) => usage(quota, false) },
      { name: "Limit", type: "string", cell: (quota) => usage(quota, true) },
    ],
  },
});

/** A container's bounds say what it gets when it asks for nothing. */
function applyDefaults(range: KubeObject): void {
  for (const item of itemsOf(fieldsOf(range["spec"]), "limits")) {
    if (item["type"] === "Container") {
      const limit = { ...fieldsOf(item["max"]), ...fieldsOf(item["default"]) };
      const request = {
        ...limit,
        ...fieldsOf(item["min"]),
        ...fieldsOf(item["default"]),
        ...fieldsOf(item["defaultRequest"]),
      };
      Object.assign(
        item,
        Object.keys(limit).length === 0 ? {} : { default: limit },
        Object.keys(request).length === 0 ? {} : { defaultRequest: request },
      );
    }
  }
}

const LIMIT_RANGE: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "limitranges",
  kind: "LimitRange",
  shortNames: ["limits"],
  strategy: {
    applyDefaults,
    columns: [
      { name: "Created At", type: "date", cell: (range) => range.metadata.creationTimestamp },
    ],
  },
});

/** Resource quotas and limit ranges. */
export const RESOURCE_LIMIT_KINDS: readonly Kind[] = [LIMIT_RANGE, RESOURCE_QUOTA];
