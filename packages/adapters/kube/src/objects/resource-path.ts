// SPDX-License-Identifier: Apache-2.0
// At which path does the API server serve an object or a collection?
import type { KubeObject, ResourceType } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { ObjectKey } from "@patchbay/core/ports";

/** A name as a part of a path; these two would lead elsewhere. Source: client-go IsValidPathSegmentName. */
function segmentOf(name: string): string {
  if (name !== "." && name !== "..") return encodeURIComponent(name);
  throw new AppError("API_MALFORMED", { what: "a name", reason: `it may not be "${name}"` });
}

/** Path of a collection; `namespace` absent: of all namespaces. Throws AppError with API_MALFORMED for `.` and `..`. */
export function collectionPath(type: ResourceType<KubeObject>, namespace?: string): string {
  const root = type.group === "" ? "/api" : `/apis/${type.group}`;
  const scope =
    type.namespaced && namespace !== undefined ? `/namespaces/${segmentOf(namespace)}` : "";
  return `${root}/${type.version}${scope}/${type.resource}`;
}

/** Path of one object. Throws as {@link collectionPath}. */
export function objectPath(
  type: ResourceType<KubeObject>,
  key: ObjectKey,
  subresource?: string,
): string {
  const path = `${collectionPath(type, key.namespace)}/${segmentOf(key.name)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

/** The key as text: `namespace/name`, or `name`. */
export function printKey(key: ObjectKey): string {
  return key.namespace === undefined ? key.name : `${key.namespace}/${key.name}`;
}

/** The key in text that {@link printKey} gave. */
export function parseKey(text: string): ObjectKey {
  const slash = text.indexOf("/");
  if (slash === -1) return { name: text };
  return { namespace: text.slice(0, slash), name: text.slice(slash + 1) };
}

/** The key of an object. */
export function keyOf(object: KubeObject): ObjectKey {
  const { namespace, name } = object.metadata;
  return namespace === undefined ? { name } : { namespace, name };
}
