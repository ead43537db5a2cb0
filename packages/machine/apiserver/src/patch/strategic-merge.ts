// SPDX-License-Identifier: Apache-2.0
// Strategic merge patch for built-in kinds. Source: Kubernetes apimachinery strategicpatch.
import { badRequest } from "../meta/status.ts";
import { type Fields, fieldsOf, isFields, listOf, printJson } from "../objects/json.ts";
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

/** What tells items of a list apart: the value of their key, or they themselves, as text. Empty where there is no such value. */
function identityOf(item: unknown, by: string | undefined): string {
  const value = by === undefined ? item : fieldsOf(item)[by];
  return value === undefined ? "" : printJson(value);
}

/** Puts items into the order that the patch names; others stay where they are relative to their neighbours. */
function reorder(
  items: readonly unknown[],
  order: readonly unknown[],
  by: string | undefined,
): unknown[] {
  const ranks = new Map<string, number>();
  for (const [index, entry] of order.entries()) {
    const identity = identityOf(entry, by);
    ranks.set(identity, ranks.get(identity) ?? index);
  }
  const placed = items.map((item) => ({ item, rank: ranks.get(identityOf(item, by)) ?? -1 }));
  const ranked = placed.filter(({ rank }) => rank >= 0);
  ranked.sort((left, right) => left.rank - right.rank);
  let next = 0;
  return placed.map(({ item, rank }) => {
    if (rank < 0) {
      return item;
    }
    next += 1;
    return ranked[next - 1]?.item;
  });
}

/** Stands where an item was that the patch has deleted. */
const DELETED = Symbol("deleted");

/** Where the items of a list are, by what tells them apart. */
function placesOf(items: readonly unknown[], by: string): Map<string, number[]> {
  return Map.groupBy(items.keys(), (index) => identityOf(items[index], by));
}

function mergeItems(
  target: readonly unknown[],
  patch: readonly unknown[],
  list: { readonly by: string; readonly shape: Shape | undefined },
): unknown[] {
  const { by, shape } = list;
  const result = [...target];
  const places = placesOf(target, by);
  for (const entry of patch) {
    const item = fieldsOf(entry);
    if (item[by] === undefined) {
      throw badRequest(`map: ${printJson(item)} does not contain declared merge key: ${by}`);
    }
    const identity = identityOf(item, by);
    const indexes = places.get(identity) ?? [];
    const [first] = indexes;
    if (item[DIRECTIVE] === "delete") {
      for (const index of indexes) {
        result[index] = DELETED;
      }
      places.delete(identity);
    } else if (first === undefined) {
      places.set(identity, [result.push(withoutDirectives(item)) - 1]);
    } else {
      result[first] = mergeMap(fieldsOf(result[first]), item, shape);
    }
  }
  return result.filter((item) => item !== DELETED);
}

function mergeSet(target: readonly unknown[], patch: readonly unknown[]): unknown[] {
  const known = identitiesOf(target);
  return [...target, ...patch.filter((item) => !known.has(identityOf(item, undefined)))];
}

function identitiesOf(values: readonly unknown[]): ReadonlySet<string> {
  return new Set(values.map((value) => identityOf(value, undefined)));
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
      const gone = identitiesOf(listOf(values));
      result[field] = listOf(result[field]).filter(
        (item) => !gone.has(identityOf(item, undefined)),
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
      if (Array.isArray(result[field])) {
        result[field] = reorder(listOf(result[field]), listOf(order), by);
      }
    }
  }
}

function retainKeys(result: Fields, patch: Fields): void {
  const { [RETAIN_KEYS]: given } = patch;
  if (Array.isArray(given)) {
    const retained = new Set<unknown>(given);
    for (const key of Object.keys(result).filter((name) => !retained.has(name))) {
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
