// SPDX-License-Identifier: Apache-2.0
import type { User } from "../auth/user.ts";
import type { Kind } from "../kinds/kind.ts";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";

type Operation = "CREATE" | "UPDATE" | "DELETE" | "CONNECT";

export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** Request for admission of a write. Source: admission/v1 AdmissionRequest. */
export interface AdmissionRequest {
  readonly kind: Kind;
  /** Kind of the object if it differs from the resource's kind, for example Scale or Binding. */
  readonly bodyKind?: GroupVersionKind;
  readonly subresource: string;
  readonly operation: Operation;
  readonly namespace: string;
  /** Name of the object; empty if the server generates it. */
  readonly name: string;
  readonly object: KubeObject | undefined;
  readonly oldObject: KubeObject | undefined;
  /** Options of the write; null for CONNECT. */
  readonly options: Fields | null;
  readonly user: User;
  readonly dryRun: boolean;
  readonly warnings: string[];
}

export type Mutation = AdmissionRequest & { readonly object: KubeObject };

export interface Admission {
  /** Returns the mutated object. Calls `complete` after each mutation to decode and default the object. Throws a StatusError on denial. */
  mutate(request: Mutation, complete: (object: KubeObject) => KubeObject): Promise<KubeObject>;
  validate(request: AdmissionRequest): Promise<void>;
  /** Throws a StatusError if the deletion is denied, or if a mutating webhook changes the object. */
  admitDeletion(request: AdmissionRequest): Promise<void>;
}

/** Admits all requests. Used to write a pod after its Binding or Eviction was admitted, because that admission covers the write. */
export const ADMIT_ALL: Admission = {
  mutate: (request) => Promise.resolve(request.object),
  validate: () => Promise.resolve(),
  admitDeletion: () => Promise.resolve(),
};

/** Converts the query to metav1 CreateOptions or UpdateOptions. */
export function toWriteOptions(
  kind: "CreateOptions" | "UpdateOptions",
  query: URLSearchParams,
): Fields {
  const dryRun = query.getAll("dryRun");
  const optionalField = (name: string) => {
    const value = query.get(name) ?? "";
    return value === "" ? {} : { [name]: value };
  };
  return {
    kind,
    apiVersion: "meta.k8s.io/v1",
    ...(dryRun.length === 0 ? {} : { dryRun }),
    ...optionalField("fieldManager"),
    ...optionalField("fieldValidation"),
  };
}
