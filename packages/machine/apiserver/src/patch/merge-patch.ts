// SPDX-License-Identifier: Apache-2.0
// JSON merge patch. Source: RFC 7386.
import { type Fields, isFields } from "../objects/json.ts";

/** The target with the patch applied; the target is not changed. */
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isFields(patch)) {
    return patch;
  }
  const result: Fields = isFields(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) {
      Reflect.deleteProperty(result, key);
    } else {
      Object.defineProperty(result, key, {
        value: applyMergePatch(Object.hasOwn(result, key) ? result[key] : undefined, value),
        enumerable: true,
        configurable: true,
        writable: true,
      });
    }
  }
  return result;
}
