// SPDX-License-Identifier: Apache-2.0
// JSON patches that test the old value before each replacement. A patch thus fails instead of overwriting a concurrent write.
import type { JsonPatchOperation } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { isEqual } from "@patchbay/base";

/** Builds a test of the resource version. A patch needs this test if it adds a member, because a missing member cannot be tested. */
export function versionTest({ metadata }: KubeObject): JsonPatchOperation {
  return { op: "test", path: "/metadata/resourceVersion", value: metadata.resourceVersion };
}

/** Escapes a member name for a JSON pointer. Source: RFC 6901 section 3. */
export function pointerToken(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

function buildFieldPatch(
  path: string,
  current: unknown,
  next: unknown,
): readonly JsonPatchOperation[] {
  if (isEqual(current, next)) return [];
  const testOperations =
    current === undefined ? [] : [{ op: "test", path, value: current } as const];
  return [
    ...testOperations,
    next === undefined ? { op: "remove", path } : { op: "add", path, value: next },
  ];
}

/**
 * Builds a patch that sets the members of `next` in the object's status, and removes the members that are undefined in `next`.
 * The patch tests each old value, or the resource version if the object has no status.
 */
export function statusPatch(
  object: KubeObject & { readonly status?: object },
  next: object,
): readonly JsonPatchOperation[] {
  const { status } = object;
  if (status === undefined) {
    return [versionTest(object), { op: "add", path: "/status", value: next }];
  }
  const currentStatus = new Map<string, unknown>(Object.entries(status));
  return Object.entries(next).flatMap(([field, value]) =>
    buildFieldPatch(`/status/${pointerToken(field)}`, currentStatus.get(field), value),
  );
}
