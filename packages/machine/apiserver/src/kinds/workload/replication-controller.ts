// SPDX-License-Identifier: Apache-2.0
// Replication controllers, as objects: clients still ask for them. Source: Kubernetes core/v1.
import type { Cause } from "../../meta/status.ts";
import { invalidValue, requiredValue } from "../../meta/causes.ts";
import { fieldsOf, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import { podSpecCauses } from "./pod-causes.ts";
import { setDefault } from "./pod-defaults.ts";
import { selectorMatcher, selectorText } from "../selector.ts";
import {
  CONTAINER_COLUMNS,
  WORKLOAD_SCALE,
  countCauses,
  countColumn,
  defaultTemplate,
  specOf,
} from "./workload.ts";

/** Its selector is a map of labels. */
function textOfSelector(controller: KubeObject): string {
  return selectorText({ matchLabels: valueAt(controller, "spec", "selector") });
}

function validate(controller: KubeObject): Cause[] {
  const spec = fieldsOf(controller["spec"]);
  const labels = fieldsOf(valueAt(spec, "template", "metadata", "labels"));
  const matches = selectorMatcher({ matchLabels: spec["selector"] });
  return [
    ...countCauses(spec, "replicas", "minReadySeconds"),
    ...(textOfSelector(controller) === "" ? [requiredValue("spec.selector")] : []),
    // Labels are texts by the form of a template.
    ...(matches(labels as Record<string, string>)
      ? []
      : [
          invalidValue(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
          ),
        ]),
    ...podSpecCauses(fieldsOf(valueAt(spec, "template", "spec")), "spec.template.spec"),
  ];
}

/** Kept with the defaults of a template; their selector is a map of labels. */
export const REPLICATION_CONTROLLER: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "replicationcontrollers",
  kind: "ReplicationController",
  shortNames: ["rc"],
  categories: ["all"],
  scale: { ...WORKLOAD_SCALE, selector: textOfSelector },
  strategy: {
    hasStatus: true,
    hasGeneration: true,
    applyDefaults: (controller) => {
      const spec = specOf(controller);
      setDefault(spec, "replicas", 1);
      setDefault(spec, "selector", valueAt(spec, "template", "metadata", "labels") ?? {});
      defaultTemplate(spec);
    },
    prepareCreate: (controller) => {
      controller["status"] = { replicas: 0 };
    },
    validate,
    columns: [
      countColumn("Desired", "spec", "replicas"),
      countColumn("Current", "status", "replicas"),
      countColumn("Ready", "status", "readyReplicas"),
      AGE,
      ...CONTAINER_COLUMNS,
      { name: "Selector", type: "string", priority: 1, cell: textOfSelector },
    ],
  },
});
