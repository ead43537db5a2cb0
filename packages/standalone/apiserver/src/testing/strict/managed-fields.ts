// SPDX-License-Identifier: Apache-2.0
// metadata.managedFields as another API server records it: a tree of the object's fields, about as large as the object.
import { copyJson, type Fields, isFields, printJson, without } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";

/** Keys of list items, best first. Source: Kubernetes structured-merge-diff. */
const ITEM_KEYS = ["name", "uid", "type", "containerPort", "ip"] as const;

function itemKey(item: Fields, index: number): string {
  const key = ITEM_KEYS.find(
    (name) => typeof item[name] === "string" || typeof item[name] === "number",
  );
  return key === undefined ? `i:${String(index)}` : `k:${printJson({ [key]: item[key] })}`;
}

/** Source: Kubernetes metav1.FieldsV1. */
function fieldsV1(value: unknown): Fields {
  if (Array.isArray(value)) {
    const items = value.filter(isFields);
    return Object.fromEntries(
      items.map((item, index) => [itemKey(item, index), { ".": {}, ...fieldsV1(item) }]),
    );
  }
  if (!isFields(value)) {
    return {};
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [`f:${name}`, fieldsV1(member)]),
  );
}

function buildEntry(object: KubeObject, part: Fields, subresource: string): Fields {
  return {
    manager: "patchbay",
    operation: "Update",
    apiVersion: object.apiVersion,
    time: object.metadata.creationTimestamp ?? "1970-01-01T00:00:00Z",
    fieldsType: "FieldsV1",
    fieldsV1: fieldsV1(part),
    ...(subresource === "" ? {} : { subresource }),
  };
}

/** Deterministic: one manager for everything except status, and one for status. */
export function buildManagedFields(object: KubeObject): readonly Fields[] {
  const { status, metadata } = object;
  const { labels, annotations, ownerReferences, finalizers } = metadata;
  const specification = without(object, "apiVersion", "kind", "metadata", "status");
  const main = { metadata: { labels, annotations, ownerReferences, finalizers }, ...specification };
  return [
    buildEntry(object, copyJson(main), ""),
    ...(status === undefined ? [] : [buildEntry(object, copyJson({ status }), "status")]),
  ];
}
