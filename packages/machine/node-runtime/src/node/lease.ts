// SPDX-License-Identifier: Apache-2.0
// The Lease that says every ten seconds that this node lives; a control plane looks at nothing else so often.
import { apiVersionOf, LEASES, type KubeNode, type Lease } from "@patchbay/api";
import { isAppError } from "@patchbay/core";
import { printMicroTime } from "@patchbay/kube";
import type { Clock, Store } from "@patchbay/core/ports";

/** Source: Kubernetes kubelet, nodeLeaseDurationSeconds. */
const DURATION_SECONDS = 40;
/** Namespace of the leases of nodes. Source: Kubernetes core/v1 NamespaceNodeLease. */
export const LEASE_NAMESPACE = "kube-node-lease";
/** Source: Kubernetes kubelet, a quarter of the lease's duration. */
export const RENEW_MS = 10_000;

/** Renews the lease of the node; it is made where it is missing. */
export async function renewLease(
  { store, clock }: { readonly store: Store; readonly clock: Clock },
  node: KubeNode,
): Promise<void> {
  const { name, uid = "" } = node.metadata;
  const key = { namespace: LEASE_NAMESPACE, name };
  const spec = {
    holderIdentity: name,
    leaseDurationSeconds: DURATION_SECONDS,
    renewTime: printMicroTime(clock.now()),
  };
  try {
    await store.patch(LEASES, key, { type: "merge", fields: { spec } });
  } catch (error) {
    if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
    // It goes with its node.
    const owner = { apiVersion: node.apiVersion, kind: node.kind, name, uid };
    const lease: Lease = {
      apiVersion: apiVersionOf(LEASES),
      kind: LEASES.kind,
      metadata: { ...key, ownerReferences: [owner] },
      spec,
    };
    await store.create(LEASES, lease);
  }
}
