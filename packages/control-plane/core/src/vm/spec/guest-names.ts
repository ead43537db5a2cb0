// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance } from "@patchbay/api";

/** Maximum length of a hostname. Source: RFC 1123 section 2.1. */
const HOSTNAME_MAX = 63;

/** Returns the VMI's `hostname`, or its name up to the first dot, cut to 63 characters. Source: KubeVirt dns.SanitizeHostname. */
export function buildHostname({ metadata, spec }: VirtualMachineInstance): string {
  const hostname = spec.hostname ?? "";
  const [first = ""] = (hostname === "" ? metadata.name : hostname).split(".");
  return first.slice(0, HOSTNAME_MAX).replace(/(?<!-)-+$/, "");
}

/** Source: Kubernetes validation of label values. */
const LABEL_VALUE_MAX = 63;
const HASH_DIGITS = 8;

/** Returns the hexadecimal 32-bit FNV-1a hash of a name. It is not suitable for secrets. */
function hashName(text: string): string {
  let hash = 0x811c9dc5;
  // Names are ASCII. Source: Kubernetes names.
  for (const letter of text) {
    hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  }
  return hash.toString(16).padStart(HASH_DIGITS, "0");
}

/** Shortens names over 63 characters and appends a hash of the whole name. */
export function toLabelValue(name: string): string {
  if (name.length <= LABEL_VALUE_MAX) return name;
  const start = name
    .slice(0, LABEL_VALUE_MAX - HASH_DIGITS - 1)
    .replace(/(?<=^|[a-zA-Z0-9])[^a-zA-Z0-9]+$/, "");
  return `${start}-${hashName(name)}`;
}
