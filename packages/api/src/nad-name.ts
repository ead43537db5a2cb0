// SPDX-License-Identifier: Apache-2.0
// What `spec.networks[].multus.networkName` says. Source: KubeVirt pkg/network/multus/nad.go.

/** DNS-1123 subdomain, at most 253 characters. Source: Kubernetes apimachinery validation. */
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const SUBDOMAIN_MAX = 253;

/** Name of a NetworkAttachmentDefinition; namespace absent: that of the VM. */
export interface NadName {
  readonly namespace?: string;
  readonly name: string;
}

function isSubdomain(text: string): boolean {
  return text.length <= SUBDOMAIN_MAX && SUBDOMAIN.test(text);
}

/** Reads NAME or NAMESPACE/NAME; undefined when it is neither. */
export function parseNadName(text: string): NadName | undefined {
  const parts = text.split("/");
  if (parts.length > 2 || !parts.every(isSubdomain)) return undefined;
  const [first = "", second] = parts;
  return second === undefined ? { name: first } : { namespace: first, name: second };
}
