// SPDX-License-Identifier: Apache-2.0
// JSON patches that test old values, so that concurrent writes are not overwritten.
import type { JsonPatchOperation } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { isEqual } from "@patchbay/base";

/** A patch that adds a member needs this test, because missing members cannot be tested. */
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
 * Tests old values, or the resource version without a status. Removes members undefined in `next`.
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
