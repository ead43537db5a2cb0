// SPDX-License-Identifier: Apache-2.0
// Metadata, conditions and status that all kinds have. Source: Kubernetes API conventions.
import { Type } from "../../fields/schema.ts";

interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** Metadata of an object. Times are in RFC 3339. */
export interface ObjectMeta {
  readonly name: string;
  readonly generateName?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly OwnerReference[];
}

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
}

/** Returns the owner that manages this object. Source: Kubernetes `metav1.GetControllerOf`. */
export function findController(object: KubeObject): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find(({ controller }) => controller === true);
}

/** Page of a list; `continue` is the token of the next page. */
export interface KubeList<T extends KubeObject> {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly resourceVersion?: string; readonly continue?: string };
  readonly items: readonly T[];
}

/** Condition of an object. Source: Kubernetes API conventions, "Typical status properties". */
export interface Condition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason?: string;
  readonly message?: string;
  readonly lastTransitionTime?: string;
}

/** Body of an error response. Source: Kubernetes `metav1.Status`. */
export interface StatusBody {
  readonly kind: "Status";
  readonly apiVersion: "v1";
  readonly metadata: Readonly<Record<string, never>>;
  readonly status: "Success" | "Failure";
  readonly message?: string;
  readonly reason?: string;
  readonly code?: number;
  readonly details?: {
    readonly name?: string;
    readonly group?: string;
    readonly kind?: string;
    readonly uid?: string;
    readonly causes?: readonly Cause[];
    readonly retryAfterSeconds?: number;
  };
}

/** Cause of a rejection. Source: Kubernetes `metav1.StatusCause`. */
export interface Cause {
  readonly reason:
    | "FieldValueRequired"
    | "FieldValueInvalid"
    | "FieldValueDuplicate"
    | "FieldValueNotFound"
    | "FieldValueNotSupported"
    | "FieldValueForbidden";
  readonly field: string;
  readonly message: string;
}

/** Schema of the conditions of KubeVirt's kinds. Other controllers may set `lastProbeTime` to null. */
export const CONDITIONS_SCHEMA = Type.Array(
  Type.Object({
    type: Type.String(),
    status: Type.Unsafe<"True" | "False" | "Unknown">({
      type: "string",
      enum: ["True", "False", "Unknown"],
    }),
    reason: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
    lastProbeTime: Type.Optional(Type.Unsafe<string | null>({ type: "string", nullable: true })),
    lastTransitionTime: Type.Optional(Type.String()),
  }),
);
