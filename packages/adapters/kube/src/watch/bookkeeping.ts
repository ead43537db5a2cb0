// SPDX-License-Identifier: Apache-2.0
// What of an object is nobody's business but the API server's and kubectl's? Of a VMI it is more than half.
import type { KubeObject, ObjectMeta } from "@patchbay/api";

/** Source: Kubernetes metav1.ObjectMeta, and kubectl apply, client-side. */
const MANAGERS = "managedFields";
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

function without<T extends object>(object: T, name: string): T {
  if (!(name in object)) return object;
  // A member less, which no type has or must have.
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name)) as T;
}

/** The object without its field managers and without what `kubectl apply` compares with. */
export function withoutBookkeeping<T extends KubeObject>(object: T): T {
  const metadata: ObjectMeta = without(object.metadata, MANAGERS);
  const { annotations } = metadata;
  const kept =
    annotations === undefined
      ? metadata
      : { ...metadata, annotations: without(annotations, LAST_APPLIED) };
  return { ...object, metadata: kept };
}
