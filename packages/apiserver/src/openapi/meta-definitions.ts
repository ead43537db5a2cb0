// SPDX-License-Identifier: Apache-2.0
// The forms of metadata. References are written `#REF#/name`.
import type { Fields } from "../objects/json.ts";

export const OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
export const LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const OWNER_REFERENCE = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference";

const TEXT = { type: "string" };
const TIME = { type: "string", format: "date-time" };
const TEXTS_BY_NAME = { type: "object", additionalProperties: TEXT };

/** Definitions that every document has. */
export const META_DEFINITIONS: Fields = {
  [OBJECT_META]: {
    type: "object",
    description: "ObjectMeta is metadata that all persisted resources must have.",
    properties: {
      name: { ...TEXT, description: "Name must be unique within a namespace." },
      generateName: { ...TEXT, description: "Prefix of a name that the server makes." },
      namespace: {
        ...TEXT,
        description: "Namespace defines the space within which each name must be unique.",
      },
      uid: { ...TEXT, description: "UID is the unique in time and space value for this object." },
      resourceVersion: { ...TEXT, description: "The version of the object's state." },
      generation: { type: "integer", format: "int64" },
      creationTimestamp: TIME,
      deletionTimestamp: TIME,
      deletionGracePeriodSeconds: { type: "integer", format: "int64" },
      labels: { ...TEXTS_BY_NAME, description: "Keys and values to organise and select objects." },
      annotations: { ...TEXTS_BY_NAME, description: "Keys and values for tools." },
      finalizers: {
        type: "array",
        items: TEXT,
        description: "Must be empty before the object is deleted.",
        "x-kubernetes-patch-strategy": "merge",
      },
      ownerReferences: {
        type: "array",
        description: "Objects depended by this object.",
        items: { $ref: `#REF#/${OWNER_REFERENCE}` },
        "x-kubernetes-patch-merge-key": "uid",
        "x-kubernetes-patch-strategy": "merge",
      },
      managedFields: { type: "array", items: { type: "object" } },
      selfLink: TEXT,
    },
  },
  [LIST_META]: {
    type: "object",
    description: "ListMeta describes metadata that lists have.",
    properties: {
      resourceVersion: TEXT,
      continue: TEXT,
      remainingItemCount: { type: "integer", format: "int64" },
      selfLink: TEXT,
    },
  },
  [OWNER_REFERENCE]: {
    type: "object",
    description: "OwnerReference names an owning object.",
    required: ["apiVersion", "kind", "name", "uid"],
    properties: {
      apiVersion: TEXT,
      kind: TEXT,
      name: TEXT,
      uid: TEXT,
      controller: { type: "boolean" },
      blockOwnerDeletion: { type: "boolean" },
    },
  },
};
