// SPDX-License-Identifier: Apache-2.0
// Strategic merge patch for built-in kinds. Source: Kubernetes apimachinery strategicpatch.
import { badRequest } from "../meta/status.ts";
import { type Fields, equalJson, fieldsOf, isFields, listOf, printJson } from "../objects/json.ts";
import type { Shape } from "../shapes/shape.ts";
import { type ListMerge, type PatchedField, patchedField } from "./merge-keys.ts";

const DIRECTIVE = "$patch";
const ORDER_PREFIX = "$setElementOrder/";
const DELETE_PREFIX = "$deleteFromPrimitiveList/";
const RETAIN_KEYS = "$retainKeys";

function isDirective(key: string): boolean {
  return key.startsWith("$");
}

function withoutDirectives(patch: Fields): Fields {
  return Object.fromEntries(
    Object.entries(patch)
      .filter(([key, value]) => !isDirective(key) && value !== null)
      .map(([key, value]) => [key, isFields(value) ? withoutDirectives(value) : value]),
  );
}

function sameKey(by: string, left: unknown, right: unknown): boolean {
  return equalJson(fieldsOf(left)[by], fieldsOf(right)[by]);
}

/** Puts items into the order that the patch names; others stay where they are relative to their neighbours. */
function reorder(
  items: unknown[],
  order: readonly unknown[],
  same: (left: unknown, right: unknown) => boolean,
): unknown[] {
  const rank = (item: unknown) => order.findIndex((entry) => same(entry, item));
  const ranked = items.filter((item) => rank(item) >= 0);
  ranked.sort((left, right) => rank(left) - rank(right));
  let next = 0;
  return items.map((item) => {
    if (rank(item) < 0) {
      return item;
    }
    next += 1;
    return ranked[next - 1];
  });
}

function mergeItems(
  target: readonly unknown[],
  patch: readonly unknown[],
  list: { readonly by: string; readonly shape: Shape | undefined },
): unknown[] {
  const { by, shape } = list;
  let result = [...target];
  for (const entry of patch) {
    const item = fieldsOf(entry);
    if (item[by] === undefined) {
      throw badRequest(`map: ${printJson(item)} does not contain declared merge key: ${by}`);
    }
    const at = result.findIndex((existing) => sameKey(by, existing, item));
    if (item[DIRECTIVE] === "delete") {
      result = result.filter((existing) => !sameKey(by, existing, item));
    } else if (at < 0) {
      result.push(withoutDirectives(item));
    } else {
      result[at] = mergeMap(fieldsOf(result[at]), item, shape);
    }
  }
  return result;
}

function mergeSet(target: readonly unknown[], patch: readonly unknown[]): unknown[] {
  const added = patch.filter((item) => !target.some((existing) => equalJson(existing, item)));
  return [...target, ...added];
}

function mergeList(
  target: unknown,
  patch: readonly unknown[],
  list: { readonly merge: ListMerge; readonly shape: Shape | undefined },
): unknown[] {
  const { merge, shape } = list;
  if (patch.some((entry) => isFields(entry) && entry[DIRECTIVE] === "replace")) {
    return patch.filter((entry) => !(isFields(entry) && entry[DIRECTIVE] === "replace"));
  }
  return merge === "set"
    ? mergeSet(listOf(target), patch)
    : mergeItems(listOf(target), patch, { by: merge.by, shape });
}

function mergeField(target: unknown, value: unknown, field: PatchedField): unknown {
  const { shape, list } = field;
  if (Array.isArray(value)) {
    const items = shape?.type === "list" ? shape.of : undefined;
    return list === undefined ? value : mergeList(target, value, { merge: list, shape: items });
  }
  return isFields(value) ? mergeMap(fieldsOf(target), value, shape) : value;
}

function applyDeletions(result: Fields, patch: Fields): void {
  for (const [key, values] of Object.entries(patch)) {
    if (key.startsWith(DELETE_PREFIX)) {
      const field = key.slice(DELETE_PREFIX.length);
      const gone = listOf(values);
      result[field] = listOf(result[field]).filter(
        (item) => !gone.some((value) => equalJson(value, item)),
      );
    }
  }
}

function applyOrders(result: Fields, patch: Fields, shape: Shape | undefined): void {
  for (const [key, order] of Object.entries(patch)) {
    if (key.startsWith(ORDER_PREFIX)) {
      const field = key.slice(ORDER_PREFIX.length);
      const { list } = patchedField(shape, field);
      const by = list === undefined || list === "set" ? undefined : list.by;
      const same = (left: unknown, right: unknown) =>
        by === undefined ? equalJson(left, right) : sameKey(by, left, right);
      if (Array.isArray(result[field])) {
        result[field] = reorder([...listOf(result[field])], listOf(order), same);
      }
    }
  }
}

function retainKeys(result: Fields, patch: Fields): void {
  const retained = patch[RETAIN_KEYS];
  if (Array.isArray(retained)) {
    for (const key of Object.keys(result).filter((name) => !retained.includes(name))) {
      Reflect.deleteProperty(result, key);
    }
  }
}

function mergeMap(target: Fields, patch: Fields, shape: Shape | undefined): Fields {
  if (patch[DIRECTIVE] === "replace") {
    return withoutDirectives(patch);
  }
  if (patch[DIRECTIVE] === "delete") {
    return {};
  }
  const result = { ...target };
  retainKeys(result, patch);
  applyDeletions(result, patch);
  for (const [field, value] of Object.entries(patch)) {
    if (isDirective(field)) {
      continue;
    }
    if (value === null) {
      Reflect.deleteProperty(result, field);
    } else {
      const existing = Object.hasOwn(result, field) ? result[field] : undefined;
      result[field] = mergeField(existing, value, patchedField(shape, field));
    }
  }
  applyOrders(result, patch, shape);
  return result;
}

/** The target, which has this shape, with the patch applied; the target is not changed. Throws a StatusError 400. */
export function applyStrategicMerge(
  target: Fields,
  patch: unknown,
  shape: Shape | undefined,
): Fields {
  if (!isFields(patch) || Object.hasOwn(patch, "__proto__")) {
    throw badRequest("error decoding patch: a strategic merge patch is an object");
  }
  return mergeMap(target, patch, shape);
}
