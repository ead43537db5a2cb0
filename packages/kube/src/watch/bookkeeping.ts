// SPDX-License-Identifier: Apache-2.0
// What of an object is nobody's business but the API server's and kubectl's? Of a VMI it is more than half.
import type { KubeObject, ObjectMeta } from "@patchbay/api";

/** Source: kubectl apply, client-side. */
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/** Field managers are no field of ours. Source: Kubernetes metav1.ManagedFieldsEntry. */
type StoredMeta = ObjectMeta & { readonly managedFields?: unknown };

function withoutLastApplied(annotations: ObjectMeta["annotations"]): ObjectMeta["annotations"] {
  if (annotations?.[LAST_APPLIED] === undefined) return annotations;
  const { [LAST_APPLIED]: _, ...others } = annotations;
  return others;
}

/** The object without its field managers and without what `kubectl apply` compares with. */
export function withoutBookkeeping<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata }: StoredMeta = object.metadata;
  const annotations = withoutLastApplied(metadata.annotations);
  return {
    ...object,
    metadata: { ...metadata, ...(annotations !== undefined && { annotations }) },
  };
}
