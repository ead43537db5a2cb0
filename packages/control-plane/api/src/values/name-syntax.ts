// SPDX-License-Identifier: Apache-2.0
// Syntax of the names of Kubernetes objects, NetworkAttachmentDefinitions and links.
/** Syntax of a DNS label. Source: Kubernetes apimachinery validation, DNS-1123. */
const LABEL_SYNTAX = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const LABEL_MAX = 63;
const SUBDOMAIN_SYNTAX = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const SUBDOMAIN_MAX = 253;

/** Name of a NetworkAttachmentDefinition. If `namespace` is unset, the VM's namespace applies. */
export interface NadName {
  readonly namespace?: string;
  readonly name: string;
}

export function isObjectName(text: string): boolean {
  return text.length <= SUBDOMAIN_MAX && SUBDOMAIN_SYNTAX.test(text);
}

export function isNamespaceName(text: string): boolean {
  return text.length <= LABEL_MAX && LABEL_SYNTAX.test(text);
}

/** Parses NAME or NAMESPACE/NAME. Returns undefined for malformed text. Source: KubeVirt pkg/network/multus/nad.go. */
export function parseNadName(text: string): NadName | undefined {
  const [first = "", second, ...extraParts] = text.split("/", 3);
  if (second === undefined) return isObjectName(first) ? { name: first } : undefined;
  const areBothValid = extraParts.length === 0 && isNamespaceName(first) && isObjectName(second);
  return areBothValid ? { namespace: first, name: second } : undefined;
}

/** Maximum length of a link's name, in bytes (IFNAMSIZ - 1). Source: linux/if.h */
export const LINK_NAME_MAX = 15;

function countUtf8Bytes(text: string): number {
  let bytes = 0;
  for (const character of text) {
    const codePoint = character.codePointAt(0) ?? 0;
    bytes += 1 + Number(codePoint > 0x7f) + Number(codePoint > 0x7ff) + Number(codePoint > 0xffff);
  }
  return bytes;
}

/** Checks the name of a link. Rejects control characters, although the kernel accepts them. Source: linux/net/core/dev.c dev_valid_name. */
export function isLinkName(text: string): boolean {
  return (
    text !== "" &&
    text !== "." &&
    text !== ".." &&
    countUtf8Bytes(text) <= LINK_NAME_MAX &&
    !/[\s/:\p{Cc}\p{Cs}]/u.test(text)
  );
}
