// SPDX-License-Identifier: Apache-2.0
// Whether amounts of memory can be read.
import { isNothing } from "../fields/notation.ts";
import type { FieldProblem } from "./unsupported.ts";
import { parseQuantity } from "../values/quantity.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";

/** Fields of a VMI specification at `base` that ought to be an amount of memory and are none. */
export function unreadableQuantities(spec: VmiSpec, base: string): readonly FieldProblem[] {
  const { memory, resources } = spec.domain;
  const fields: readonly (readonly [string, unknown])[] = [
    ["memory.guest", memory?.guest],
    ["resources.requests.memory", resources?.requests?.["memory"]],
  ];
  return fields
    .filter(([, value]) => !isNothing(value) && parseQuantity(value) === undefined)
    .map(([field, value]) => ({
      field: `${base}.domain.${field}`,
      message: `${String(value)} is no quantity, write for example 128Mi`,
    }));
}
