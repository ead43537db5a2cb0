// SPDX-License-Identifier: Apache-2.0
// JSON patches that lose nobody's write.
import type { JsonPatchOperation, KubeObject } from "@patchbay/api";
import { isEqual } from "./equal.ts";

/** Holds the patch to the object as it was read: for what cannot be tested by itself, since it is not there yet. */
export function versionTest({ metadata }: KubeObject): JsonPatchOperation {
  return { op: "test", path: "/metadata/resourceVersion", value: metadata.resourceVersion };
}

/** A member of an object in a JSON pointer. Source: RFC 6901 section 3. */
export function pointerToken(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

function fieldPatch(path: string, current: unknown, next: unknown): readonly JsonPatchOperation[] {
  if (isEqual(current, next)) return [];
  const test = current === undefined ? [] : [{ op: "test", path, value: current } as const];
  return [...test, next === undefined ? { op: "remove", path } : { op: "add", path, value: next }];
}

/**
 * Sets the members of `next` in the object's status, an undefined one by taking it away; others are left alone. What is
 * replaced must be as it was read; so must the whole object where it has no status yet.
 */
export function statusPatch(
  object: KubeObject & { readonly status?: object },
  next: object,
): readonly JsonPatchOperation[] {
  const { status } = object;
  if (status === undefined) {
    return [versionTest(object), { op: "add", path: "/status", value: next }];
  }
  const current = new Map<string, unknown>(Object.entries(status));
  return Object.entries(next).flatMap(([field, value]) =>
    fieldPatch(`/status/${pointerToken(field)}`, current.get(field), value),
  );
}
