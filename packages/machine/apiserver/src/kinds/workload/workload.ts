// SPDX-License-Identifier: Apache-2.0
// What the kinds of apps/v1 share: a selector, a template, a number of pods. Nothing acts on them here. Source: Kubernetes apps/v1.
import type { Cause } from "../../meta/status.ts";
import { invalidValue, requiredValue, unsupportedValue } from "../../meta/causes.ts";
import {
  type Fields,
  asText,
  equalJson,
  fieldsOf,
  isFields,
  textAt,
  valueAt,
} from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { Column, ScaleValues } from "../kind.ts";
import { podSpecCauses } from "./pod-causes.ts";
import { defaultPodSpec, itemsOf, setDefault } from "./pod-defaults.ts";
import { isEmptySelector, selectorCauses, selectorMatcher, selectorText } from "../selector.ts";

/** The specification, made where there is none. */
export function specOf(object: KubeObject): Fields {
  const spec = fieldsOf(object["spec"]);
  object["spec"] = spec;
  return spec;
}

/** Fills in the defaults of the template. Changes it. */
export function defaultTemplate(spec: Fields): void {
  const template = fieldsOf(spec["template"]);
  const podSpec = fieldsOf(template["spec"]);
  defaultPodSpec(podSpec);
  template["spec"] = podSpec;
  spec["template"] = template;
}

/** The strategy below `key`: RollingUpdate with these parameters, unless it says otherwise. Changes it. */
export function defaultStrategy(spec: Fields, key: string, parameters: Fields): void {
  const strategy = fieldsOf(spec[key]);
  spec[key] = strategy;
  setDefault(strategy, "type", "RollingUpdate");
  if (strategy["type"] === "RollingUpdate") {
    strategy["rollingUpdate"] = { ...parameters, ...fieldsOf(strategy["rollingUpdate"]) };
  }
}

/** Causes for which a number below zero is refused. */
export function countCauses(spec: Fields, ...keys: readonly string[]): Cause[] {
  return keys
    .filter((key) => Number(spec[key] ?? 0) < 0)
    .map((key) => invalidValue(`spec.${key}`, spec[key], "must be greater than or equal to 0"));
}

function matchCauses(spec: Fields, noun: string): Cause[] {
  const { selector } = spec;
  if (!isFields(selector)) {
    return [requiredValue("spec.selector")];
  }
  const causes = selectorCauses(selector, "spec.selector");
  if (causes.length > 0) {
    return causes;
  }
  if (isEmptySelector(selector)) {
    return [invalidValue("spec.selector", selector, `empty selector is invalid for ${noun}`)];
  }
  const labels = fieldsOf(valueAt(spec, "template", "metadata", "labels"));
  return selectorMatcher(selector)(labels as Record<string, string>)
    ? []
    : [
        invalidValue(
          "spec.template.metadata.labels",
          labels,
          "`selector` does not match template `labels`",
        ),
      ];
}

/** Causes for which selector and template are refused; `claims`: volumes that the controller adds. */
export function templateCauses(
  spec: Fields,
  noun: string,
  claims: readonly string[] = [],
): Cause[] {
  const podSpec = fieldsOf(valueAt(spec, "template", "spec"));
  const policy = textAt(podSpec, "restartPolicy");
  return [
    ...matchCauses(spec, noun),
    ...podSpecCauses(podSpec, "spec.template.spec", claims),
    ...(policy === "Always"
      ? []
      : [unsupportedValue("spec.template.spec.restartPolicy", policy, ["Always"])]),
  ];
}

/** Causes for which another selector is refused. */
export function selectorChange(object: KubeObject, current: KubeObject): Cause[] {
  const selector = valueAt(object, "spec", "selector");
  return equalJson(selector, valueAt(current, "spec", "selector"))
    ? []
    : [invalidValue("spec.selector", selector, "field is immutable")];
}

/** Where the scale subresource of a workload finds its values. */
export const WORKLOAD_SCALE: ScaleValues = {
  spec: ["spec", "replicas"],
  status: ["status", "replicas"],
  selector: (object) => selectorText(valueAt(object, "spec", "selector")),
};

/** A column with a number at a path; 0 where there is none. */
export function countColumn(name: string, ...path: readonly string[]): Column {
  return { name, type: "integer", cell: (object) => valueAt(object, ...path) ?? 0 };
}

/** `ready/wanted`. */
export const READY_COLUMN: Column = {
  name: "Ready",
  type: "string",
  cell: (object) => {
    const ready = asText(valueAt(object, "status", "readyReplicas") ?? 0);
    return `${ready}/${asText(valueAt(object, "spec", "replicas") ?? 0)}`;
  },
};

function containerTexts(object: KubeObject, key: string): string {
  return itemsOf(fieldsOf(valueAt(object, "spec", "template", "spec")), "containers")
    .map((container) => textAt(container, key))
    .join(",");
}

/** What the template runs. */
export const CONTAINER_COLUMNS: readonly Column[] = [
  {
    name: "Containers",
    type: "string",
    priority: 1,
    cell: (object) => containerTexts(object, "name"),
  },
  {
    name: "Images",
    type: "string",
    priority: 1,
    cell: (object) => containerTexts(object, "image"),
  },
];

/** Whose pods they are. */
export const SELECTOR_COLUMN: Column = {
  name: "Selector",
  type: "string",
  priority: 1,
  cell: (object) => selectorText(valueAt(object, "spec", "selector")) || "<none>",
};
