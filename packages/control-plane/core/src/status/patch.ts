// SPDX-License-Identifier: Apache-2.0
// JSON patches that test what they replace, so that they never overwrite a concurrent write.
import type { JsonPatchOperation } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { isEqual } from "@patchbay/base";

/** Tests the resource version. Use it where the patch adds a member that cannot be tested because it does not exist. */
export function versionTest({ metadata }: KubeObject): JsonPatchOperation {
  return { op: "test", path: "/metadata/resourceVersion", value: metadata.resourceVersion };
}

/** Escapes a member name for a JSON pointer. Source: RFC 6901 section 3. */
export function pointerToken(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

function fieldPatch(path: string, current: unknown, next: unknown): readonly JsonPatchOperation[] {
  if (isEqual(current, next)) return [];
  const test = current === undefined ? [] : [{ op: "test", path, value: current } as const];
  return [...test, next === undefined ? { op: "remove", path } : { op: "add", path, value: next }];
}

/**
 * Sets the members of `next` in the object's status, and removes undefined ones. Other members stay unchanged. The patch
 * tests each old value, or the resource version if the object has no status yet.
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
