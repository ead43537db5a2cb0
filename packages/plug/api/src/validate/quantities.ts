// SPDX-License-Identifier: Apache-2.0
// Whether amounts can be read: one that cannot is an error, never a default.
import { isNothing } from "../fields/notation.ts";
import { quantitiesOf } from "../fields/walk.ts";
import { VmiSpecSchema, type VmiSpec } from "../kinds/vmi-spec.ts";
import { parseQuantity } from "../values/quantity.ts";
import { rememberedAt } from "../values/remembered.ts";
import type { FieldProblem } from "./unsupported.ts";

function isNegative(text: string): boolean {
  return text.startsWith("-") && parseQuantity(text.slice(1)) !== undefined;
}

/** Fields of a VMI specification at `base` that ought to be an amount and are none. */
export const unreadableQuantities: (spec: VmiSpec, base: string) => readonly FieldProblem[] =
  rememberedAt((spec, base) =>
    quantitiesOf(VmiSpecSchema, spec, base)
      .filter(({ value }) => !isNothing(value) && parseQuantity(value) === undefined)
      .map(({ path, value }) => {
        const text = String(value);
        const message = isNegative(text)
          ? `${path} '${text}': must be greater than or equal to 0.`
          : `${text} is not a quantity; write, for example, 128Mi`;
        return { field: path, message };
      }),
  );
