// SPDX-License-Identifier: Apache-2.0
// Field selectors: text to predicate, for the fields that a kind offers. Source: Kubernetes fields.ParseSelector.
import { badRequest } from "./status.ts";
import { type Kind, apiVersionOf } from "../kinds/kind.ts";
import type { KubeObject } from "../objects/object.ts";

/** Whether an object matches. */
export type ObjectMatcher = (object: KubeObject) => boolean;

/** What a parsed selector says. */
export interface FieldSelector {
  readonly matches: ObjectMatcher;
  /** Value that metadata.name must have; lets `list` look up instead of scan. */
  readonly name: string | undefined;
}

const META_FIELDS: Readonly<Record<string, (object: KubeObject) => string>> = {
  "metadata.name": (object) => object.metadata.name,
  "metadata.namespace": (object) => object.metadata.namespace ?? "",
};

const TERM = /^([^=!]+)(==|!=|=)(.*)$/;

function termOf(text: string, kind: Kind): { field: string; negated: boolean; value: string } {
  const [, field = "", operator = "", value = ""] = TERM.exec(text) ?? [];
  if (field === "") {
    throw badRequest(`invalid field selector: "${text}"; can't understand it`);
  }
  if (!Object.hasOwn(META_FIELDS, field) && !Object.hasOwn(kind.strategy.selectableFields, field)) {
    const why =
      kind.custom === undefined
        ? `"${field}" is not a known field selector: only "metadata.name", "metadata.namespace"`
        : `field label not supported: ${field}`;
    throw badRequest(
      `Unable to find "${apiVersionOf(kind)}, Resource=${kind.resource}" that match label selector "", field selector "${text}": ${why}`,
    );
  }
  return { field, negated: operator === "!=", value: value.replace(/\\(.)/g, "$1") };
}

/** Parses a selector; undefined when it is empty and everything matches. Throws a StatusError 400 for fields that the kind does not offer. */
export function parseFieldSelector(text: string, kind: Kind): FieldSelector | undefined {
  const terms = text
    .split(/(?<!\\),/)
    .filter((term) => term !== "")
    .map((term) => termOf(term, kind));
  if (terms.length === 0) {
    return undefined;
  }
  const getters = { ...kind.strategy.selectableFields, ...META_FIELDS };
  return {
    name: terms.find((term) => term.field === "metadata.name" && !term.negated)?.value,
    matches: (object) =>
      terms.every(
        (term) => ((getters[term.field]?.(object) ?? "") === term.value) !== term.negated,
      ),
  };
}
