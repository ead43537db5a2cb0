// SPDX-License-Identifier: Apache-2.0
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import type { ObjectKey } from "@patchbay/core/interfaces";

/** Encodes a name as a path segment. Rejects `.` and `..`. Source: client-go IsValidPathSegmentName */
function encodeSegment(name: string): string {
  if (name !== "." && name !== "..") return encodeURIComponent(name);
  throw new AppError("API_MALFORMED", { what: "a name", reason: `it may not be "${name}"` });
}

/**
 * Returns the URL path of a kind's objects: of the objects in `namespace`, or of all objects if `namespace` is undefined.
 * @throws AppError with API_MALFORMED for the namespaces `.` and `..`
 */
export function collectionPath(type: ResourceType<KubeObject>, namespace?: string): string {
  const root = type.group === "" ? "/api" : `/apis/${type.group}`;
  const scope =
    type.namespaced && namespace !== undefined ? `/namespaces/${encodeSegment(namespace)}` : "";
  return `${root}/${type.version}${scope}/${type.resource}`;
}

/** @throws AppError with API_MALFORMED for the names `.` and `..` */
export function objectPath(
  type: ResourceType<KubeObject>,
  key: ObjectKey,
  subresource?: string,
): string {
  const path = `${collectionPath(type, key.namespace)}/${encodeSegment(key.name)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

/** Prints a key as `namespace/name`, or as `name` without a namespace. */
export function printKey(key: ObjectKey): string {
  return key.namespace === undefined ? key.name : `${key.namespace}/${key.name}`;
}

export function parseKey(text: string): ObjectKey {
  const slash = text.indexOf("/");
  if (slash === -1) return { name: text };
  return { namespace: text.slice(0, slash), name: text.slice(slash + 1) };
}

export function keyOf(object: KubeObject): ObjectKey {
  const { namespace, name } = object.metadata;
  return namespace === undefined ? { name } : { namespace, name };
}

/** Returns the resource version as a number, or 0 if it is not numeric. Source: Kubernetes KEP-5504 "Comparable Resource Version" */
export function parseVersion(object: KubeObject): bigint {
  const text = object.metadata.resourceVersion ?? "0";
  return /^\d+$/.test(text) ? BigInt(text) : 0n;
}

/** Formats milliseconds since 1970 as an RFC 3339 time with milliseconds. */
export function printTime(ms: number): string {
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  return new Date(ms).toISOString();
}

/** Formats milliseconds since 1970 as an RFC 3339 time with microseconds. Source: Kubernetes metav1.MicroTime */
export function printMicroTime(ms: number): string {
  return printTime(ms).replace("Z", "000Z");
}

/** Parses a time to milliseconds since 1970. Returns NaN if the text is not a time. */
export function parseTime(text: string): number {
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  return Date.parse(text);
}
