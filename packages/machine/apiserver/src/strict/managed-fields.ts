// SPDX-License-Identifier: Apache-2.0
// What a server that records field managers adds to an object: a tree of its fields, about as large as the object.
import { copyJson, type Fields, isFields, printJson, without } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";

/** Members by which items of lists are told apart, most telling first. Source: Kubernetes structured-merge-diff. */
const KEYS = ["name", "uid", "type", "containerPort", "ip"] as const;

function itemKey(item: Fields, index: number): string {
  const key = KEYS.find((name) => typeof item[name] === "string" || typeof item[name] === "number");
  return key === undefined ? `i:${String(index)}` : `k:${printJson({ [key]: item[key] })}`;
}

/** The tree of a value's fields. Source: Kubernetes metav1.FieldsV1. */
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

function entryOf(object: KubeObject, part: Fields, subresource: string): Fields {
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

/**
 * The record of an object's managers, always the same for the same object: one that writes everything but the status,
 * and one that writes the status.
 */
export function managedFieldsOf(object: KubeObject): readonly Fields[] {
  const { status, metadata } = object;
  const { labels, annotations, ownerReferences, finalizers } = metadata;
  const specification = without(object, "apiVersion", "kind", "metadata", "status");
  const main = { metadata: { labels, annotations, ownerReferences, finalizers }, ...specification };
  return [
    entryOf(object, copyJson(main), ""),
    ...(status === undefined ? [] : [entryOf(object, copyJson({ status }), "status")]),
  ];
}
