// SPDX-License-Identifier: Apache-2.0
// Strategic merge patches for built-in kinds. Source: Kubernetes apimachinery strategicpatch.
import { badRequest } from "../meta/status.ts";
import { type Fields, asFields, isFields, asList, printJson } from "../objects/json.ts";
import type { Shape } from "../shapes/shape.ts";

/** How a patch merges a list: by a key of the items, or as a set of scalars. */
type ListMerge = { readonly mergeKey: string } | "set";

interface PatchedField {
  readonly shape: Shape | undefined;
  readonly listMerge: ListMerge | undefined;
}

/** Field of unknown type, in which a patch merges objects and replaces lists. */
const UNKNOWN_FIELD: PatchedField = { shape: undefined, listMerge: undefined };

export function lookUpField(shape: Shape | undefined, name: string): PatchedField {
  if (shape?.type === "map") {
    return { shape: shape.items, listMerge: undefined };
  }
  const field = shape?.type === "object" ? shape.fields.get(name) : undefined;
  if (field === undefined) {
    return UNKNOWN_FIELD;
  }
  const { merge } = field;
  if (field.shape.type !== "list" || merge === undefined) {
    return { shape: field.shape, listMerge: undefined };
  }
  return {
    shape: field.shape,
    listMerge: merge.key === undefined ? "set" : { mergeKey: merge.key },
  };
}

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

function printIdentity(item: unknown, mergeKey: string | undefined): string {
  const value = mergeKey === undefined ? item : asFields(item)[mergeKey];
  return value === undefined ? "" : printJson(value);
}

/** Sorts items as in `order`. Items that are not in `order` retain their positions. */
function reorder(
  items: readonly unknown[],
  order: readonly unknown[],
  mergeKey: string | undefined,
): unknown[] {
  const ranks = new Map<string, number>();
  for (const [index, entry] of order.entries()) {
    const identity = printIdentity(entry, mergeKey);
    ranks.set(identity, ranks.get(identity) ?? index);
  }
  const withRanks = items.map((item) => ({
    item,
    rank: ranks.get(printIdentity(item, mergeKey)) ?? -1,
  }));
  const rankedItems = withRanks.filter(({ rank }) => rank >= 0);
  rankedItems.sort((left, right) => left.rank - right.rank);
  let placedCount = 0;
  return withRanks.map(({ item, rank }) => {
    if (rank < 0) {
      return item;
    }
    placedCount += 1;
    return rankedItems[placedCount - 1]?.item;
  });
}

const DELETED = Symbol("deleted");

function indexByIdentity(items: readonly unknown[], mergeKey: string): Map<string, number[]> {
  return Map.groupBy(items.keys(), (index) => printIdentity(items[index], mergeKey));
}

function mergeItems(
  target: readonly unknown[],
  patch: readonly unknown[],
  list: { readonly mergeKey: string; readonly shape: Shape | undefined },
): unknown[] {
  const { mergeKey, shape } = list;
  const result = [...target];
  const indexesByIdentity = indexByIdentity(target, mergeKey);
  for (const entry of patch) {
    const item = asFields(entry);
    if (item[mergeKey] === undefined) {
      throw badRequest(`map: ${printJson(item)} does not contain declared merge key: ${mergeKey}`);
    }
    const identity = printIdentity(item, mergeKey);
    const indexes = indexesByIdentity.get(identity) ?? [];
    const [firstIndex] = indexes;
    if (item[DIRECTIVE] === "delete") {
      for (const index of indexes) {
        result[index] = DELETED;
      }
      indexesByIdentity.delete(identity);
    } else if (firstIndex === undefined) {
      indexesByIdentity.set(identity, [result.push(withoutDirectives(item)) - 1]);
    } else {
      result[firstIndex] = mergeMap(asFields(result[firstIndex]), item, shape);
    }
  }
  return result.filter((item) => item !== DELETED);
}

function mergeSet(target: readonly unknown[], patch: readonly unknown[]): unknown[] {
  const knownIdentities = collectIdentities(target);
  return [
    ...target,
    ...patch.filter((item) => !knownIdentities.has(printIdentity(item, undefined))),
  ];
}

function collectIdentities(values: readonly unknown[]): ReadonlySet<string> {
  return new Set(values.map((value) => printIdentity(value, undefined)));
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
    ? mergeSet(asList(target), patch)
    : mergeItems(asList(target), patch, { mergeKey: merge.mergeKey, shape });
}

function mergeField(target: unknown, value: unknown, field: PatchedField): unknown {
  const { shape, listMerge } = field;
  if (Array.isArray(value)) {
    const items = shape?.type === "list" ? shape.items : undefined;
    return listMerge === undefined
      ? value
      : mergeList(target, value, { merge: listMerge, shape: items });
  }
  return isFields(value) ? mergeMap(asFields(target), value, shape) : value;
}

function applyDeletions(result: Fields, patch: Fields): void {
  for (const [key, values] of Object.entries(patch)) {
    if (key.startsWith(DELETE_PREFIX)) {
      const field = key.slice(DELETE_PREFIX.length);
      const deletedIdentities = collectIdentities(asList(values));
      result[field] = asList(result[field]).filter(
        (item) => !deletedIdentities.has(printIdentity(item, undefined)),
      );
    }
  }
}

function applyOrders(result: Fields, patch: Fields, shape: Shape | undefined): void {
  for (const [key, order] of Object.entries(patch)) {
    if (key.startsWith(ORDER_PREFIX)) {
      const field = key.slice(ORDER_PREFIX.length);
      const { listMerge } = lookUpField(shape, field);
      const mergeKey =
        listMerge === undefined || listMerge === "set" ? undefined : listMerge.mergeKey;
      if (Array.isArray(result[field])) {
        result[field] = reorder(asList(result[field]), asList(order), mergeKey);
      }
    }
  }
}

function retainKeys(result: Fields, patch: Fields): void {
  const { [RETAIN_KEYS]: keys } = patch;
  if (Array.isArray(keys)) {
    const retainedKeys = new Set<unknown>(keys);
    for (const key of Object.keys(result).filter((name) => !retainedKeys.has(name))) {
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
      const existingValue = Object.hasOwn(result, field) ? result[field] : undefined;
      result[field] = mergeField(existingValue, value, lookUpField(shape, field));
    }
  }
  applyOrders(result, patch, shape);
  return result;
}

/**
 * Applies the patch to a copy of the target. Throws a StatusError 400 if the patch is not an object, has the key `__proto__`, or has a list
 * entry without its merge key.
 */
export function applyStrategicMerge(
  target: Fields,
  patch: unknown,
  shape: Shape | undefined,
): Fields {
  if (!isFields(patch) || Object.hasOwn(patch, "__proto__")) {
    throw badRequest("error decoding patch: a strategic merge patch must be an object");
  }
  return mergeMap(target, patch, shape);
}
