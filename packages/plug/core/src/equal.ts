// SPDX-License-Identifier: Apache-2.0
// Whether two JSON values are the same.

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** Deep equality of JSON values; the order of keys does not count, an undefined member is no member. */
export function isEqual(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (!isObject(left) || !isObject(right) || Array.isArray(left) !== Array.isArray(right))
    return false;
  return (
    Object.keys(left).every((key) => isEqual(left[key], right[key])) &&
    Object.keys(right).every((key) => right[key] === undefined || Object.hasOwn(left, key))
  );
}

/**
 * Whether all that is wanted is stored so. What is stored beside it does not count: servers fill in defaults and nulls.
 * Lists are compared element by element, and are as long as wanted.
 */
export function covers(stored: unknown, wanted: unknown): boolean {
  if (stored === wanted || wanted === undefined) return true;
  if (!isObject(stored) || !isObject(wanted)) return false;
  if (Array.isArray(stored) || Array.isArray(wanted)) {
    return lengthOf(stored) === lengthOf(wanted) && areCovered(stored, wanted);
  }
  return areCovered(stored, wanted);
}

function lengthOf(value: unknown): number {
  return Array.isArray(value) ? value.length : -1;
}

function areCovered(
  stored: Readonly<Record<string, unknown>>,
  wanted: Readonly<Record<string, unknown>>,
): boolean {
  return Object.entries(wanted).every(([key, value]) => covers(stored[key], value));
}
