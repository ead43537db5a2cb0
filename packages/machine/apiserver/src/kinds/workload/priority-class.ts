// SPDX-License-Identifier: Apache-2.0
// Priority classes, as objects: nothing here schedules by them. Source: Kubernetes scheduling.k8s.io/v1.
import type { Cause } from "../../meta/status.ts";
import { forbiddenValue, unsupportedValue } from "../../meta/causes.ts";
import { equalJson, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";

/** Above are the system's own. Source: Kubernetes scheduling HighestUserDefinablePriority. */
const VALUE_MAX = 1_000_000_000;
const POLICIES: readonly string[] = ["Never", "PreemptLowerPriority"];

function validate(priority: KubeObject): Cause[] {
  const policy = textAt(priority, "preemptionPolicy");
  const { name } = priority.metadata;
  return [
    ...(name.startsWith("system-")
      ? [
          forbiddenValue(
            "metadata.name",
            "priority class names with 'system-' prefix are reserved for system use only. error: ".concat(
              `${name} is not a known system priority class`,
            ),
          ),
        ]
      : []),
    ...(Number(priority["value"]) > VALUE_MAX
      ? [
          forbiddenValue(
            "value",
            `maximum allowed value of a user defined priority is ${String(VALUE_MAX)}`,
          ),
        ]
      : []),
    ...(POLICIES.includes(policy) ? [] : [unsupportedValue("preemptionPolicy", policy, POLICIES)]),
  ];
}

/** Value and preemption policy never change; nothing here schedules by them. */
export const PRIORITY_CLASS: Kind = defineKind({
  group: "scheduling.k8s.io",
  version: "v1",
  resource: "priorityclasses",
  kind: "PriorityClass",
  singular: "priorityclass",
  namespaced: false,
  shortNames: ["pc"],
  strategy: {
    hasGeneration: true,
    applyDefaults: (priority) => {
      priority["value"] ??= 0;
      priority["preemptionPolicy"] ??= "PreemptLowerPriority";
    },
    validate,
    validateUpdate: (priority, current) =>
      ["value", "preemptionPolicy"]
        .filter((key) => !equalJson(priority[key], current[key]))
        .map((key) => forbiddenValue(key, "may not be changed in an update.")),
    columns: [
      { name: "Value", type: "integer", cell: (priority) => priority["value"] },
      {
        name: "Global-Default",
        type: "boolean",
        cell: (priority) => priority["globalDefault"] === true,
      },
      AGE,
    ],
  },
});
