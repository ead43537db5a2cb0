// SPDX-License-Identifier: Apache-2.0
// Kinds that no controller on this machine handles. Objects are only stored, and most writes return a warning.
import {
  type Fields,
  asText,
  copyJson,
  asFields,
  isFields,
  textAt,
  valueAt,
} from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { type Column, type Kind, type ScaleValues, defineKind } from "../kind.ts";
import { printSelector } from "../selector.ts";
import { podSpecCauses } from "../workload/pod-validation.ts";
import { defaultPodSpec, objectItems } from "../workload/pod-defaults.ts";
import { toColumn } from "../../custom/custom-kind.ts";

/** Creates a column with the value at a JSON path such as `.spec.schedule`. */
export function column(name: string, jsonPath: string, type = "string"): Column {
  return toColumn({ name, type, jsonPath });
}

function wideColumn(name: string, jsonPath: string): Column {
  return { ...column(name, jsonPath), priority: 1 };
}

export function countColumn(name: string, ...path: readonly string[]): Column {
  return { name, type: "integer", cell: (object) => valueAt(object, ...path) ?? 0 };
}

/** Creates a column that shows `done/desired`. The desired count defaults to 1. */
export function ratioColumn(name: string, doneKey: string, desiredKey: string): Column {
  const cell: Column["cell"] = (object) => {
    const doneCount = asText(valueAt(object, "status", doneKey) ?? 0);
    return `${doneCount}/${asText(valueAt(object, "spec", desiredKey) ?? 1)}`;
  };
  return { name, type: "string", cell };
}

export function selectorColumn(name: string, key: string): Column {
  const cell: Column["cell"] = (object) => printSelector(valueAt(object, "spec", key)) || "<none>";
  return { name, type: "string", cell };
}

/** Creates a column with the state of a ResourceClaim. Source: Kubernetes pkg/printers/internalversion resourceClaimState. */
export function claimStateColumn(): Column {
  const cell: Column["cell"] = (object) => {
    const status = asFields(object["status"]);
    if (status["allocation"] === undefined) return "pending";
    return objectItems(status, "reservedFor").length > 0 ? "allocated,reserved" : "allocated";
  };
  return { name: "State", type: "string", cell };
}

export const TEMPLATE_COLUMNS: readonly Column[] = [
  wideColumn("Containers", ".spec.template.spec.containers[*].name"),
  wideColumn("Images", ".spec.template.spec.containers[*].image"),
  { ...selectorColumn("Selector", "selector"), priority: 1 },
];

export interface StoreOnlyKindOptions
  extends
    Pick<Kind, "group" | "version" | "resource" | "kind">,
    Partial<Pick<Kind, "shortNames" | "categories" | "namespaced">> {
  /** Advice at the end of the default warning on writes. Without advice, the kind has no default warning. */
  readonly advice?: string;
  /** Warning on writes of a kind that a controller handles. It replaces the default warning. */
  readonly warning?: string;
  readonly hasStatus?: boolean;
  readonly isScaled?: boolean;
  readonly defaults?: Fields;
  /** Path of the pod template, whose spec is defaulted and validated like a pod's. */
  readonly template?: readonly string[];
  readonly columns: readonly Column[];
}

function storeOnlyWarning(kind: string, advice: string): string {
  return `no controller on this machine handles a ${kind}, it is only stored: ${advice}`;
}

const REPLICAS_SCALE: ScaleValues = {
  specReplicasPath: ["spec", "replicas"],
  statusReplicasPath: ["status", "replicas"],
  selector: (object) => {
    const selector = asFields(valueAt(object, "spec", "selector"));
    // A ReplicationController's selector is a plain map of labels.
    const isMap = !("matchLabels" in selector || "matchExpressions" in selector);
    return printSelector(isMap ? { matchLabels: selector } : selector);
  },
};

function setDefaults(fields: Fields, defaults: Fields): void {
  for (const [key, value] of Object.entries(defaults)) {
    fields[key] ??= isFields(value) ? {} : copyJson(value);
    const child = fields[key];
    if (isFields(value) && isFields(child)) setDefaults(child, value);
  }
}

function makeApplyDefaults({ defaults = {}, template }: StoreOnlyKindOptions) {
  return (object: KubeObject): void => {
    setDefaults(object, defaults);
    const podSpec = template === undefined ? undefined : valueAt(object, ...template, "spec");
    if (isFields(podSpec)) defaultPodSpec(podSpec);
  };
}

function makeValidate(template: readonly string[]) {
  return (object: KubeObject) => {
    const podSpec = asFields(valueAt(object, ...template, "spec"));
    const claims = objectItems(asFields(object["spec"]), "volumeClaimTemplates");
    const names = claims.map((claim) => textAt(claim, "metadata", "name"));
    return podSpecCauses(podSpec, [...template, "spec"].join("."), names);
  };
}

export function defineStoreOnlyKind(options: StoreOnlyKindOptions): Kind {
  const {
    advice,
    warning = advice === undefined ? undefined : storeOnlyWarning(options.kind, advice),
    hasStatus = false,
    isScaled = false,
    template,
    columns,
    ...kindOptions
  } = options;
  return defineKind({
    ...kindOptions,
    ...(isScaled ? { scale: REPLICAS_SCALE } : {}),
    strategy: {
      hasStatus,
      hasGeneration: true,
      applyDefaults: makeApplyDefaults(options),
      ...(warning === undefined ? {} : { warnings: () => [warning] }),
      ...(template === undefined ? {} : { validate: makeValidate(template) }),
      columns,
    },
  });
}
