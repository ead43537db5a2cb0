// SPDX-License-Identifier: Apache-2.0
// What every stored object looks like while the server works on it.
import { type Fields, isFields } from "./json.ts";

/** Reference to an owner. Source: Kubernetes metav1.OwnerReference. */
export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

/** Metadata. Times are RFC 3339 text. Source: Kubernetes metav1.ObjectMeta. */
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

/** An object of any kind. */
export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: Meta;
  [field: string]: unknown;
}

/** Whether a JSON value has the form of an object: metadata of the right types is checked elsewhere. */
export function isKubeObject(value: unknown): value is KubeObject {
  return isFields(value) && isFields(value["metadata"]);
}

/** The object as plain fields, for code that walks it. */
export function toFields(object: KubeObject): Fields {
  return object;
}

/** Where an object lives: `bucket` is `<group>/<resource>`; namespace is empty for cluster-scoped kinds. */
export interface Address {
  readonly bucket: string;
  readonly namespace: string;
  readonly name: string;
}

/** The address as one text; the order of these texts is the order of lists. */
export function printAddress(address: Address): string {
  return `${address.bucket}/${address.namespace}/${address.name}`;
}

/** Reads what `printAddress` printed. */
export function parseAddress(text: string): Address {
  const [group = "", resource = "", namespace = "", name = ""] = text.split("/");
  return { bucket: `${group}/${resource}`, namespace, name };
}
