// SPDX-License-Identifier: Apache-2.0
// Columns of kinds that are only kept: values at paths, as custom resources have them, and what pods they speak of.
import { toColumn } from "../../custom/custom-kind.ts";
import { asText, valueAt } from "../../objects/json.ts";
import type { Column } from "../kind.ts";
import { selectorText } from "../selector.ts";

/** A column with what is at a path (`.spec.schedule`). */
export function column(name: string, jsonPath: string, type = "string"): Column {
  return toColumn({ name, type, jsonPath });
}

/** The same, with `-o wide`. */
export function wideColumn(name: string, jsonPath: string): Column {
  return { ...column(name, jsonPath), priority: 1 };
}

/** A column with a number; 0 where there is none. */
export function countColumn(name: string, ...path: readonly string[]): Column {
  return { name, type: "integer", cell: (object) => valueAt(object, ...path) ?? 0 };
}

/** `done/wanted`; of what is not said how many are wanted, one is. */
export function ratioColumn(name: string, doneKey: string, wantedKey: string): Column {
  const cell: Column["cell"] = (object) => {
    const done = asText(valueAt(object, "status", doneKey) ?? 0);
    return `${done}/${asText(valueAt(object, "spec", wantedKey) ?? 1)}`;
  };
  return { name, type: "string", cell };
}

/** Which pods they are. */
export function selectorColumn(name: string, key: string): Column {
  const cell: Column["cell"] = (object) => selectorText(valueAt(object, "spec", key)) || "<none>";
  return { name, type: "string", cell };
}

/** With `-o wide`, what a template runs, and whose pods they are. */
export const TEMPLATE_COLUMNS: readonly Column[] = [
  wideColumn("Containers", ".spec.template.spec.containers[*].name"),
  wideColumn("Images", ".spec.template.spec.containers[*].image"),
  { ...selectorColumn("Selector", "selector"), priority: 1 },
];
