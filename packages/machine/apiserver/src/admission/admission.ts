// SPDX-License-Identifier: Apache-2.0
// Admission requests and the interface of admission plugins.
import type { User } from "../auth/user.ts";
import type { Kind } from "../kinds/kind.ts";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";

/** What is being done. */
type Operation = "CREATE" | "UPDATE" | "DELETE" | "CONNECT";

/** Which kind an object is of. */
export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** One question. Source: admission/v1 AdmissionRequest. */
export interface AdmissionQuestion {
  /** The kind of the resource that the path names. */
  readonly kind: Kind;
  /** Kind of the object, where it is not the resource's: a Scale, a Binding. */
  readonly bodyKind?: GroupVersionKind;
  readonly subresource: string;
  readonly operation: Operation;
  readonly namespace: string;
  /** Empty where the server is to make one up. */
  readonly name: string;
  readonly object: KubeObject | undefined;
  readonly oldObject: KubeObject | undefined;
  /** Null where the operation has none: CONNECT. */
  readonly options: Fields | null;
  readonly user: User;
  readonly dryRun: boolean;
  /** Warnings for the client; answers add to it. */
  readonly warnings: string[];
}

/** A question about an object that may be changed. */
export type Mutation = AdmissionQuestion & { readonly object: KubeObject };

/** Those who may change or refuse a write. */
export interface Admission {
  /** The object after all changes; `complete` defaults and prunes it again after each. Throws a StatusError where it is refused. */
  mutate(question: Mutation, complete: (object: KubeObject) => KubeObject): Promise<KubeObject>;
  /** Throws a StatusError where it is refused. */
  validate(question: AdmissionQuestion): Promise<void>;
  /** Asks everybody about a deletion, which nobody can change. Throws a StatusError where it is refused. */
  admitDeletion(question: AdmissionQuestion): Promise<void>;
}

/** Lets everything pass: for writes that follow from one that was admitted. */
export const ADMIT_ALL: Admission = {
  mutate: (question) => Promise.resolve(question.object),
  validate: () => Promise.resolve(),
  admitDeletion: () => Promise.resolve(),
};

/** Options of a query as an object, as webhooks are told them. */
export function writeOptions(
  kind: "CreateOptions" | "UpdateOptions",
  query: URLSearchParams,
): Fields {
  const dryRun = query.getAll("dryRun");
  const given = (name: string) => {
    const value = query.get(name) ?? "";
    return value === "" ? {} : { [name]: value };
  };
  return {
    kind,
    apiVersion: "meta.k8s.io/v1",
    ...(dryRun.length === 0 ? {} : { dryRun }),
    ...given("fieldManager"),
    ...given("fieldValidation"),
  };
}
