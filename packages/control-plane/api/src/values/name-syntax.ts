// SPDX-License-Identifier: Apache-2.0
// Syntax of the names of Kubernetes objects, network definitions and links.
/** Syntax of a DNS label. Source: Kubernetes apimachinery validation, DNS-1123. */
const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const LABEL_MAX = 63;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const SUBDOMAIN_MAX = 253;

/** Name of a NetworkAttachmentDefinition. If the namespace is unset, it is the VM's. */
export interface NadName {
  readonly namespace?: string;
  readonly name: string;
}

export function isObjectName(text: string): boolean {
  return text.length <= SUBDOMAIN_MAX && SUBDOMAIN.test(text);
}

export function isNamespaceName(text: string): boolean {
  return text.length <= LABEL_MAX && LABEL.test(text);
}

/** Parses NAME or NAMESPACE/NAME; undefined if malformed. Source: KubeVirt pkg/network/multus/nad.go. */
export function parseNadName(text: string): NadName | undefined {
  const [first = "", second, ...rest] = text.split("/", 3);
  if (second === undefined) return isObjectName(first) ? { name: first } : undefined;
  const areBothValid = rest.length === 0 && isNamespaceName(first) && isObjectName(second);
  return areBothValid ? { namespace: first, name: second } : undefined;
}

/** Maximum length of a link's name, in bytes (IFNAMSIZ - 1). Source: linux/if.h */
export const LINK_NAME_MAX = 15;

function byteLengthOf(text: string): number {
  let bytes = 0;
  for (const character of text) {
    const point = character.codePointAt(0) ?? 0;
    bytes += 1 + Number(point > 0x7f) + Number(point > 0x7ff) + Number(point > 0xffff);
  }
  return bytes;
}

/**
 * Checks a link's name. Unlike the kernel, it rejects control characters, because names are printed. Source:
 * linux/net/core/dev.c dev_valid_name.
 */
export function isLinkName(text: string): boolean {
  return (
    text !== "" &&
    text !== "." &&
    text !== ".." &&
    byteLengthOf(text) <= LINK_NAME_MAX &&
    !/[\s/:\p{Cc}\p{Cs}]/u.test(text)
  );
}
