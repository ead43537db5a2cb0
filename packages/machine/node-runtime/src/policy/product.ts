// SPDX-License-Identifier: Apache-2.0
// Which pods are the product's own, and may do what others may not?
import { names, type Pod } from "@patchbay/api";

/** Accounts of the services: who may use one in the product's namespace has been given the node. */
const ACCOUNTS: readonly string[] = ["virt-api", "virt-controller", "virt-handler", "net-agent"];

/** Whether a pod is in the product's namespace and runs as one of its services. */
export function isProductPod({ metadata, spec }: Pod): boolean {
  return (
    metadata.namespace === names.SERVICES_NAMESPACE &&
    ACCOUNTS.includes(spec.serviceAccountName ?? "")
  );
}
