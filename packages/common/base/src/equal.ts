// SPDX-License-Identifier: Apache-2.0

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** Compares JSON values deeply. Ignores the order of keys. An undefined member equals a missing member. */
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
 * Returns whether `stored` contains all members of `wanted`. Ignores additional members of `stored`, because servers
 * add defaults and nulls. Lists must have the same length and are compared element by element.
 */
export function covers(stored: unknown, wanted: unknown): boolean {
  if (stored === wanted || wanted === undefined) return true;
  if (!isObject(stored) || !isObject(wanted)) return false;
  if (Array.isArray(stored) || Array.isArray(wanted)) {
    return arrayLength(stored) === arrayLength(wanted) && coversMembers(stored, wanted);
  }
  return coversMembers(stored, wanted);
}

function arrayLength(value: unknown): number {
  return Array.isArray(value) ? value.length : -1;
}

function coversMembers(
  stored: Readonly<Record<string, unknown>>,
  wanted: Readonly<Record<string, unknown>>,
): boolean {
  return Object.entries(wanted).every(([key, value]) => covers(stored[key], value));
}
