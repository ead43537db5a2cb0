// SPDX-License-Identifier: Apache-2.0
// How does a strategic merge patch treat a field of a built-in kind? The shape of the kind says it.
import type { Shape } from "../shapes/shape.ts";

/** How a list is merged: by a key of its items, or as a set of values. */
export type ListMerge = { readonly by: string } | "set";

/** A field to be patched: what is in it, and how its list is merged (undefined: it is replaced). */
export interface PatchedField {
  readonly shape: Shape | undefined;
  readonly list: ListMerge | undefined;
}

/** Everything below a field whose shape is not known is merged as maps, and lists are replaced. */
const UNKNOWN: PatchedField = { shape: undefined, list: undefined };

/** The field `name` of something with this shape. */
export function patchedField(shape: Shape | undefined, name: string): PatchedField {
  if (shape?.type === "map") {
    return { shape: shape.of, list: undefined };
  }
  const field = shape?.type === "object" ? shape.fields.get(name) : undefined;
  if (field === undefined) {
    return UNKNOWN;
  }
  const { merge } = field;
  if (field.shape.type !== "list" || merge === undefined) {
    return { shape: field.shape, list: undefined };
  }
  return { shape: field.shape, list: merge.key === undefined ? "set" : { by: merge.key } };
}
