// SPDX-License-Identifier: Apache-2.0
// Kinds on which nobody of this machine acts, served as custom resources are: a form, a few defaults, columns, and a word
// to whoever writes one.
import { type Fields, copyJson, fieldsOf, isFields, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { type Column, defineKind, type Kind, type ScaleValues } from "../kind.ts";
import { selectorText } from "../selector.ts";
import { podSpecCauses } from "../workload/pod-causes.ts";
import { defaultPodSpec, itemsOf } from "../workload/pod-defaults.ts";

/** What is known of such a kind. */
export interface KeptKind
  extends
    Pick<Kind, "group" | "version" | "resource" | "kind">,
    Partial<Pick<Kind, "shortNames" | "categories" | "namespaced">> {
  /** What to do instead; absent where whoever writes one needs no warning. */
  readonly instead?: string;
  readonly hasStatus?: boolean;
  /** Whether a number of pods can be set: `spec.replicas`. */
  readonly isScaled?: boolean;
  /** Fields that are filled in where they are absent: kubectl counts on them. */
  readonly defaults?: Fields;
  /** Where the template of its pods is: what is in it has the defaults and the refusals of a pod. */
  readonly template?: readonly string[];
  /** Columns behind Name. */
  readonly columns: readonly Column[];
}

/** What a client is told that writes an object on which nobody acts. */
export function keptWarning(kind: string, instead: string): string {
  return `nothing on this machine acts on a ${kind}, it is only kept: ${instead}`;
}

const SCALE: ScaleValues = {
  spec: ["spec", "replicas"],
  status: ["status", "replicas"],
  selector: (object) => {
    const selector = fieldsOf(valueAt(object, "spec", "selector"));
    // Of a ReplicationController it is a map of labels.
    const isMap = !("matchLabels" in selector || "matchExpressions" in selector);
    return selectorText(isMap ? { matchLabels: selector } : selector);
  },
};

/** Fills in what is absent. Changes `fields`. */
function fillIn(fields: Fields, defaults: Fields): void {
  for (const [key, value] of Object.entries(defaults)) {
    fields[key] ??= isFields(value) ? {} : copyJson(value);
    const child = fields[key];
    if (isFields(value) && isFields(child)) fillIn(child, value);
  }
}

function defaultsOf({ defaults = {}, template }: KeptKind) {
  return (object: KubeObject): void => {
    fillIn(object, defaults);
    const podSpec = template === undefined ? undefined : valueAt(object, ...template, "spec");
    if (isFields(podSpec)) defaultPodSpec(podSpec);
  };
}

function causesOf(template: readonly string[]) {
  return (object: KubeObject) => {
    const podSpec = fieldsOf(valueAt(object, ...template, "spec"));
    const claims = itemsOf(fieldsOf(object["spec"]), "volumeClaimTemplates");
    const names = claims.map((claim) => textAt(claim, "metadata", "name"));
    return podSpecCauses(podSpec, [...template, "spec"].join("."), names);
  };
}

/** The kind as the server has kinds. */
export function keep(kept: KeptKind): Kind {
  const { instead, hasStatus = false, isScaled = false, template, columns, ...sketch } = kept;
  return defineKind({
    ...sketch,
    ...(isScaled ? { scale: SCALE } : {}),
    strategy: {
      hasStatus,
      hasGeneration: true,
      applyDefaults: defaultsOf(kept),
      ...(instead === undefined ? {} : { warnings: () => [keptWarning(kept.kind, instead)] }),
      ...(template === undefined ? {} : { validate: causesOf(template) }),
      columns,
    },
  });
}
