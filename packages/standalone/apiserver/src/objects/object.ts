// SPDX-License-Identifier: Apache-2.0
import { type Fields, isFields } from "./json.ts";

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

/** Metadata of an object. Times are RFC 3339. Source: Kubernetes metav1.ObjectMeta. */
export interface Meta {
  name: string;
  generateName?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
  managedFields?: unknown;
  selfLink?: string;
}

export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: Meta;
  [field: string]: unknown;
}

export function isKubeObject(value: unknown): value is KubeObject {
  return isFields(value) && isFields(value["metadata"]);
}

export function toFields(object: KubeObject): Fields {
  return object;
}

/** Identity of a stored object. `bucket` is `<group>/<resource>`; `namespace` is empty for cluster-scoped kinds. */
export interface Address {
  readonly bucket: string;
  readonly namespace: string;
  readonly name: string;
}

/** Prints an address. Lists of objects are sorted by this text. */
export function printAddress(address: Address): string {
  return `${address.bucket}/${address.namespace}/${address.name}`;
}

export function parseAddress(text: string): Address {
  const [group = "", resource = "", namespace = "", name = ""] = text.split("/");
  return { bucket: `${group}/${resource}`, namespace, name };
}
